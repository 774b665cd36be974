"""A worker of several model copies, each a process of its own: turns, streaming, crashes, memory, batches, ends."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from seq._processes import start_time
from seq.contract.deployments import Concurrency, PolicyDecl, Timeouts
from tests.e2e.harness import wait_for
from tests.e2e.workers import LIMIT_S, Gateway, Process

POLICY = """
import os, pathlib, signal, subprocess, sys, time
import seq

HERE = pathlib.Path(__file__).parent

def note(name, text):
    with (HERE / name).open("a") as file:
        file.write(f"{text}\\n")

@seq.policy(name="toy", gpu="cpu")
class Toy:
    @seq.load
    def load(self, weights_dir):
        self.seen = 0
        note("loads", f"{os.getpid()} begins")
        {load}
        note("loads", f"{os.getpid()} done")

    @seq.infer
    {batched}
    def infer(self, obs, *, episode_id=None):
        {infer}

    @seq.on_episode
    def forget(self, episode_id):
        note("ended", f"{episode_id} {os.getpid()}")

    @seq.shutdown
    def bye(self):
        note("bye", os.getpid())
"""
ONE = """note("ran", obs["number"])
        if obs.get("wait"):
            while not (HERE / "go").exists():
                time.sleep(0.01)
        if obs.get("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += 1
        return {"pid": os.getpid(), "seen": self.seen}"""
MANY = """time.sleep(0.2)
        return [{"number": item["number"], "size": len(obs)} for item in obs]"""


class Worker(Process):
    """A worker of the policy above."""

    url = ""

    def act(self, number: Any, request_id: str | None = None, *, episode_id: str | None = None, **obs: Any) -> Any:
        """One act on a connection of its own, as from another robot."""
        headers = {} if request_id is None else {"X-Seq-Request-Id": request_id}
        body = {"inputs": {"number": number, **obs}} | ({} if episode_id is None else {"episode_id": episode_id})
        with self.client(self.url) as client:
            return client.post("/act", json=body, headers=headers)

    def ping(self) -> Any:
        """What it counted."""
        with self.client(self.url) as client:
            return client.get("/ping").json()

    def until(self, **wanted: Any) -> None:
        """Wait until the ping says so."""
        deadline = time.monotonic() + LIMIT_S
        while any((said := self.ping())[name] != value for name, value in wanted.items()):
            assert time.monotonic() < deadline, said
            time.sleep(0.02)

    def noted(self, name: str) -> list[str]:
        """The lines that the policy noted."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def pids(self) -> list[int]:
        """Every copy that ever began to load."""
        return [int(line.split()[0]) for line in self.noted("loads") if line.endswith("begins")]


Make = Callable[..., Worker]


@pytest.fixture
def make(tmp_path: Path, gateway: Gateway) -> Iterator[Make]:
    made: list[Worker] = []

    def start(copies: int = 4, *, load: str = "pass", infer: str = ONE, batched: str = "", **told: Any) -> Worker:
        source = POLICY.replace("{load}", load).replace("{infer}", infer).replace("{batched}", batched)
        declared = {"replicas_per_gpu": copies, **told.pop("declared", {})}
        worker = Worker(tmp_path, gateway, source, concurrency=Concurrency(**declared), **told)
        made.append(worker)
        return worker

    yield start
    for worker in made:
        worker.end()


def served(worker: Worker) -> Worker:
    """The worker, once it serves."""
    told = worker.gateway.until("ready")
    assert [report["phase"] for report in told] == ["start", "load", "ready"]
    worker.url = told[-1]["url"]
    return worker


def gone(pids: list[int]) -> bool:
    """Whether none of them lives, a moment later at most."""
    deadline = time.monotonic() + LIMIT_S
    while any(start_time(pid) is not None for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def at_once(worker: Worker, count: int, **options: Any) -> Iterator[list[Any]]:
    """`count` acts sent at once; their answers are there when the block is left."""
    answers: list[httpx.Response] = []
    with ThreadPoolExecutor(count) as robots:
        sent = [robots.submit(worker.act, number, **options) for number in range(count)]
        yield answers
        answers += [one.result() for one in sent]


def test_four_copies_serve_four_acts_at_once_and_the_rest_wait(make):
    """Four of eight acts run together, each in a process of its own; the others wait, and none is refused."""
    worker = served(make())
    with at_once(worker, 8, wait=True) as answers:
        worker.until(busy=8)
        while len(worker.noted("ran")) < 4:
            time.sleep(0.01)
        assert len(worker.noted("ran")) == 4
        (worker.folder / "go").touch()
    assert {answer.status_code for answer in answers} == {200}
    pids = Counter(answer.json()["outputs"]["pid"] for answer in answers)
    assert (len(pids), worker.child.pid in pids) == (4, False)
    assert sorted(worker.noted("ran")) == [str(number) for number in range(8)]
    ping = worker.ping()
    assert (ping["copies"], ping["acts"], ping["busy"], ping["restarts"]) == (4, 8, 0, 0)


def test_a_streaming_episode_stays_on_its_copy(make):
    """Episodes are spread over the copies, every act of one reaches the same; its end is told there alone."""
    worker = served(make(2, policy=PolicyDecl(handler_ref="policy:Toy", streaming=True)))
    where: dict[str, set[int]] = {"e0": set(), "e1": set(), "e2": set()}
    for _ in range(3):
        for episode, pids in where.items():
            pids.add(worker.act(0, episode_id=episode).json()["outputs"]["pid"])
    assert [len(pids) for pids in where.values()] == [1, 1, 1]
    assert len(set.union(*where.values())) == 2
    with worker.client(worker.url) as client:
        client.post("/act/episode_end", json={"episode_id": "e1"})
    worker.child.terminate()
    assert worker.child.wait(LIMIT_S) == 0
    assert worker.noted("ended")[0] == f"e1 {where['e1'].pop()}"
    assert sorted(line.split()[0] for line in worker.noted("ended")) == ["e0", "e1", "e2"]


def test_a_copy_that_dies_is_replaced_and_nothing_runs_twice(make):
    """The act it ran is refused as crashed, for good; waiting acts and the other copy go on; it serves again."""
    worker = served(make(2))
    died = worker.act("fatal", "r-0000dead", die=True)
    assert (died.status_code, died.json()["details"]["reason"], died.json()["retryable"]) == (503, "crashed", True)
    assert "was killed by signal 9 (SIGKILL)" in died.json()["detail"]
    with at_once(worker, 6) as answers:
        pass
    assert {answer.status_code for answer in answers} == {200}
    assert worker.act("fatal", "r-0000dead", die=True).json()["details"]["reason"] == "crashed"
    worker.until(copies=2, restarts=1)
    with at_once(worker, 6) as answers:
        pass
    assert {answer.status_code for answer in answers} == {200}
    assert Counter(worker.noted("ran")) == {"fatal": 1, **{str(number): 2 for number in range(6)}}
    assert len(set(worker.pids())) == 3


def test_an_idle_copy_that_is_killed_loses_no_act(make):
    """Copies killed from outside while acts come are replaced; what was not in them is answered."""
    worker = served(make(2))
    answers = []
    for number in range(20):
        if number in {5, 12}:
            os.kill(worker.pids()[-1], signal.SIGKILL)
            worker.until(copies=1)
        answers.append(worker.act(number))
        if number in {8, 15}:
            worker.until(copies=2)
    assert {answer.status_code for answer in answers} == {200}
    assert worker.noted("ran") == [str(number) for number in range(20)]


def test_a_worker_whose_copies_keep_crashing_gives_up(make):
    """Once none serves and one has crashed three times within minutes the worker ends, its reason told."""
    worker = served(make(2))
    for number in range(3):
        worker.until(copies=2, restarts=2 * number)
        for pid in worker.pids()[-2:]:
            os.kill(pid, signal.SIGKILL)
    failed = worker.gateway.until("failed")[-1]
    assert (failed["reason"], worker.child.wait(LIMIT_S)) == ("crashed", 1)
    assert "was killed by signal 9 (SIGKILL)" in failed["error"]


def test_a_copy_that_cannot_come_back_takes_nobody_with_it(make):
    """Its reload fails again and again, after longer and longer pauses, with the number that fits; others serve."""
    full = 'if (HERE / "full").exists(): raise MemoryError()'
    worker = served(make(3, load=full))
    (worker.folder / "full").touch()
    os.kill(worker.pids()[-1], signal.SIGKILL)
    for number in range(2):
        wait_for(lambda began=3 + number: len(worker.pids()) > began)
        assert worker.act(number).status_code == 200
    (worker.folder / "full").unlink()
    worker.until(copies=3, restarts=1)
    assert (
        "2 of 3 copies came up; lower replicas_per_gpu to 2; it is started again" in (worker.folder / "log").read_text()
    )


def test_a_worker_of_one_copy_ends_with_it(make):
    """The only copy's crash ends the worker without an answer, so that robots look for another; its reason is told."""
    worker = served(make(1))
    with pytest.raises(httpx.TransportError):
        worker.act(0, die=True)
    failed = worker.gateway.until("failed")[-1]
    assert (failed["reason"], worker.child.wait(LIMIT_S)) == ("crashed", 1)


@pytest.mark.parametrize("start", ["together", "one_by_one"])
@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        ("raise MemoryError()", "host_out_of_memory"),
        ("raise type('OutOfMemoryError', (RuntimeError,), {})('CUDA')", "gpu_out_of_memory"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "host_out_of_memory"),
    ],
)
def test_copies_that_do_not_fit_fail_the_worker_with_the_number_that_does(make, start, fails, reason):
    """Two of four copies find room: the worker fails, says so, and nothing of it lives on."""
    load = f"""
        for room in ("room-0", "room-1"):
            try:
                (HERE / room).touch(exist_ok=False)
                break
            except FileExistsError:
                pass
        else:
            {fails}"""
    worker = make(4, load=load, declared={"replica_start": start})
    failed = worker.gateway.until("failed")[-1]
    assert failed["reason"] == reason
    assert failed["error"].startswith("load failed: ")
    assert failed["error"].endswith("2 of 4 copies came up; lower replicas_per_gpu to 2")
    assert worker.child.wait(LIMIT_S) == 1
    assert gone(worker.pids())


def test_copies_come_up_one_by_one_where_that_is_declared(make):
    """Each begins to load once the one before it serves."""
    worker = served(make(3, load="time.sleep(0.1)", declared={"replica_start": "one_by_one"}))
    lines = [line.split() for line in worker.noted("loads")]
    assert [what for _, what in lines] == ["begins", "done"] * 3
    assert [lines[i][0] == lines[i + 1][0] for i in (0, 2, 4)] == [True] * 3


def test_a_load_that_crashes_is_told_with_its_exit_code(make):
    """A process that ends in its load says nothing itself; the worker says how it ended."""
    failed = make(2, load="os._exit(7)").gateway.until("failed")[-1]
    assert failed["reason"] == "crashed"
    assert "ended with exit code 7" in failed["error"]


def test_a_batched_policy_gets_what_waits_together(make):
    """An eval's acts go in batches no larger than declared, each answered its own, the batch's size told."""
    batched = "@seq.batched(max_batch_size=4, eval_wait_ms=500)"
    worker = served(make(1, infer=MANY, batched=batched, for_eval=True))
    with at_once(worker, 8) as answers:
        pass
    bodies = [answer.json() for answer in answers]
    assert [body["outputs"]["number"] for body in bodies] == list(range(8))
    assert {body["outputs"]["size"] for body in bodies} == {4}
    assert {body["perf"]["batch_size"] for body in bodies} == {4}


def test_a_bad_request_in_a_batch_is_refused_alone(make):
    """What is wrong with one request is found before the batch; the others run."""
    batched = "@seq.batched(max_batch_size=4, eval_wait_ms=200)"
    worker = served(make(1, infer=MANY, batched=batched, for_eval=True))
    with at_once(worker, 3) as answers, worker.client(worker.url) as client:
        wrong = client.post("/act", json={"inputs": {"number": 9}, "params": {"nobody": 1}})
    assert (wrong.status_code, wrong.json()["details"]["reason"]) == (400, "params")
    assert {answer.status_code for answer in answers} == {200}


def test_every_copy_shuts_down_after_its_acts(make):
    """Told to end, the worker answers what it has, then every copy's hook runs, and nothing lives on."""
    worker = served(make(3))
    with at_once(worker, 5, wait=True) as answers:
        worker.until(busy=5)
        worker.child.terminate()
        worker.until(status="draining")
        refused = worker.act("late")
        (worker.folder / "go").touch()
    assert {answer.status_code for answer in answers} == {200}
    assert (refused.status_code, refused.json()["details"]["reason"]) == (503, "draining")
    assert worker.child.wait(LIMIT_S) == 0
    assert sorted(worker.noted("bye")) == sorted(map(str, worker.pids()))
    assert gone(worker.pids())


@pytest.mark.parametrize("end", ["the worker is killed", "its pipe is closed"])
def test_nothing_lives_after_its_worker(make, end):
    """A worker that is killed, or let go, takes its copies with it, and what those started in their group."""
    load = 'note("children", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)'
    worker = served(make(3, load=load))
    children = [int(pid) for pid in worker.noted("children")]
    assert not any(start_time(pid) is None for pid in [*worker.pids(), *children])
    if end == "its pipe is closed":
        worker.stdin.close()
    else:
        worker.child.kill()
    worker.child.wait(LIMIT_S)
    assert gone([*worker.pids(), *children])


def test_a_stopped_copy_holds_up_nobody_else(make):
    """A copy that is frozen costs the acts it has; the others serve, and the worker answers its ping and ends."""
    worker = served(make(2, timeouts=Timeouts(request=5)))
    first = worker.act(0).json()["outputs"]["pid"]
    os.kill(first, signal.SIGSTOP)
    answers = [worker.act(number) for number in range(1, 5)]
    assert sorted({answer.status_code for answer in answers}) == [200, 504]
    assert worker.ping()["copies"] == 2
    os.kill(first, signal.SIGCONT)
    worker.until(busy=0, acts=5)
    assert sorted(worker.noted("ran")) == ["0", "1", "2", "3", "4"]


def test_an_inference_that_never_ends_costs_its_copy(make):
    """Its robot is told after `timeouts.request`; three times that long after its beginning another copy is there."""
    worker = served(make(2, timeouts=Timeouts(request=1)))
    assert worker.act(0, "r-hung", wait=True).json()["code"] == "timeout"
    worker.until(copies=1)
    worker.until(copies=2, restarts=1, busy=0)
    again = worker.act(0, "r-hung", wait=True).json()
    assert (again["details"]["reason"], worker.noted("ran")) == ("crashed", ["0"])
    assert "ran one inference for over 3 s (3 x timeouts.request); another takes the next act" in again["detail"]
    assert worker.act(1).status_code == 200


def test_a_worker_of_one_copy_ends_with_an_inference_that_never_does(make):
    """The platform is told why, and starts another."""
    worker = served(make(1, timeouts=Timeouts(request=1)))
    assert worker.act(0, wait=True).json()["code"] == "timeout"
    failed = worker.gateway.until("failed")[-1]
    assert (failed["reason"], worker.child.wait(LIMIT_S)) == ("stuck", 1)
    assert failed["error"] == "model copy 0 ran one inference for over 3 s (3 x timeouts.request)"


def test_a_full_disk_under_the_log_fails_no_act(make):
    """What a policy prints where nothing can be written any more is lost, and its acts are answered."""
    printing = f'os.dup2(os.open("/dev/full", os.O_WRONLY), 1); print("x" * 100_000)\n        {ONE}'
    worker = served(make(2, infer=printing))
    assert worker.act(0).status_code == 200
