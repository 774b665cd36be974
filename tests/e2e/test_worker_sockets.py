"""Acts on the copies' own sockets, with a worker's real processes: the same answers, crashes, counters, ends."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runner.worker.acts import ActRefusedError, Acts, LineLostError
from seq._processes import start_time
from seq.contract.deployments import Concurrency, PolicyDecl, Timeouts
from seq.contract.robot import ActionContract
from tests.e2e.harness import wait_for
from tests.e2e.workers import LIMIT_S, SECRET, Gateway, Process

POLICY = """
import os, pathlib, signal, time
import numpy
import seq

HERE = pathlib.Path(__file__).parent

def note(name, text):
    with (HERE / name).open("a") as file:
        file.write(f"{text}\\n")

@seq.policy(name="toy", gpu="cpu")
class Toy:
    @seq.load
    def load(self, weights_dir):
        note("loads", os.getpid())
        self.seen = 0

    @seq.infer
    {batched}
    def infer(self, obs, *, seed=None, episode_id=None):
        {infer}

    @seq.on_episode
    def forget(self, episode_id):
        note("ended", f"{episode_id} {os.getpid()}")

    @seq.shutdown
    def bye(self):
        note("bye", os.getpid())
"""
ONE = """
        what = obs.get("do")
        note("ran", what)
        if what == "wait":
            while not (HERE / "go").exists():
                time.sleep(0.01)
        elif what == "hang":
            time.sleep(600)
        elif what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "leave":
            os._exit(3)
        elif what == "exit":
            raise SystemExit(3)
        elif what == "raise":
            raise ValueError("mine")
        self.seen += 1
        return {"pid": os.getpid(), "seen": self.seen, "obs": obs}"""


class Worker(Process):
    """An eval's worker of the policy above, and lines to its copies."""

    sockets: list[str]
    url: str
    ready: dict[str, Any]
    lines: list[Acts]

    def served(self) -> Worker:
        """Itself, once it serves."""
        self.lines = []
        self.ready = self.gateway.until("ready")[-1]
        self.sockets, self.url = self.ready["sockets"], self.ready["url"]
        return self

    def line(self, copy: int = 0) -> Acts:
        """A line to a copy, which may be starting again."""

        def connected() -> bool:
            try:
                self.lines.append(Acts(self.sockets[copy], SECRET, LIMIT_S))
            except LineLostError:
                return False
            return True

        wait_for(connected, LIMIT_S)
        return self.lines[-1]

    def end(self) -> None:
        """End whatever is left of it, and its lines."""
        for line in self.lines:
            line.close()
        super().end()

    def ping(self) -> Any:
        """What it counted."""
        with self.client(self.url) as client:
            return client.get("/ping").json()

    def until(self, **wanted: Any) -> None:
        """Wait until the ping says so."""
        wait_for(lambda: {name: self.ping()[name] for name in wanted} == wanted, LIMIT_S)

    def noted(self, name: str) -> list[str]:
        """The lines that the policy noted."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []


Make = Callable[..., Worker]


@pytest.fixture
def make(tmp_path: Path, gateway: Gateway) -> Iterator[Make]:
    made: list[Worker] = []

    def start(copies: int = 2, *, infer: str = ONE, batched: str = "", **told: Any) -> Worker:
        source = POLICY.replace("{infer}", infer).replace("{batched}", batched)
        shares = Concurrency(replicas_per_gpu=copies)
        made.append(Worker(tmp_path, gateway, source, concurrency=shares, **{"for_eval": True, **told}))
        return made[-1]

    yield start
    for worker in made:
        worker.end()


def test_every_copy_listens_and_answers_as_the_door(make):
    """In the order of the names each line reaches one copy, whose answer is the door's."""
    action = ActionContract(
        robot="toy", action_space="joint_absolute", action_dim=2, control_frequency_hz=10, bounds=[(-1, 1), (-1, 1)]
    )
    infer = "return [[float(seed), 0.5]] if seed else obs"
    worker = make(2, infer=infer, policy=PolicyDecl(handler_ref="policy:Toy", action=action)).served()
    assert len(set(worker.sockets)) == 2
    body = {"inputs": {"a": [1, 2.5]}, "seed": 3, "episode_id": "e"}
    with worker.client(worker.url) as client:
        door = [client.post("/act", json={**body, "seed": seed}).json() for seed in (3, 0)]
    for copy in range(2):
        line = worker.line(copy)
        answer = line.ask(body)
        assert (
            (answer["outputs"], answer["warnings"])
            == (door[0]["outputs"], door[0]["warnings"])
            == (
                [[1.0, 0.5]],
                ["step 0: clipped dimension 0 from 3 to 1"],
            )
        )
        with pytest.raises(ActRefusedError) as refused:
            line.ask({**body, "seed": 0})
        assert (refused.value.code, refused.value.detail) == (door[1]["code"], door[1]["detail"])
        line.close()
    assert worker.ping()["acts"] == 6
    assert worker.ping()["errors"] == 3


def test_it_says_what_it_runs_on(make):
    """The report of a worker that is ready names its Python and what its copies loaded, an eval's or not."""
    facts = make(1, for_eval=False).served().ready["facts"]
    assert facts["python"] == platform.python_version()
    assert "numpy" in facts


def test_a_worker_for_robots_has_none(make):
    """Robots keep the door."""
    worker = make(1, for_eval=False).served()
    assert worker.sockets == []


def test_a_copys_lines_and_the_door_take_turns(make):
    """Many lines to one copy and acts at the door, all at once, are each answered once."""
    worker = make(1, infer="self.seen += 1; return [obs, self.seen]").served()
    lines = [worker.line() for _ in range(8)]
    with worker.client(worker.url) as client, ThreadPoolExecutor(10) as askers:
        there = [
            askers.submit(lambda line=line: [line.ask({"inputs": n})["outputs"] for n in range(40)]) for line in lines
        ]
        here = askers.submit(lambda: [client.post("/act", json={"inputs": n}).json()["outputs"] for n in range(40)])
        answers = [one.result() for one in (*there, here)]
    assert [[obs for obs, _ in told] for told in answers] == [list(range(40))] * 9
    assert sorted(seen for told in answers for _, seen in told) == list(range(1, 361))
    ping = worker.ping()
    assert (ping["acts"], ping["busy"], ping["errors"]) == (360, 0, 0)


@pytest.mark.parametrize(("how", "ended"), [("kill", "signal 9"), ("leave", "exit code 3")])
def test_a_copy_that_dies_listens_again_under_its_name(make, how, ended):
    """Its lines are lost at once, the other copy's go on; started again it is found where it was, and counts on."""
    worker = make(2).served()
    dying, other = worker.line(0), worker.line(1)
    pid = dying.ask({"inputs": {"do": "act"}})["outputs"]["pid"]
    with pytest.raises(LineLostError):
        dying.ask({"inputs": {"do": how}})
    assert other.ask({"inputs": {"do": "act"}})["outputs"]["seen"] == 1
    again = worker.line(0).ask({"inputs": {"do": "act"}})["outputs"]
    assert (again["seen"], again["pid"] != pid) == (1, True)
    worker.until(copies=2, restarts=1, acts=3, busy=0)
    assert ended in (worker.folder / "log").read_text()


def test_a_policy_that_raises_or_exits_fails_its_act_alone(make):
    """Told as at the door; the copy and its lines go on."""
    worker = make(1).served()
    line = worker.line()
    for what, kind in (("raise", "ValueError"), ("exit", "SystemExit")):
        with pytest.raises(ActRefusedError) as refused:
            line.ask({"inputs": {"do": what}})
        told = refused.value.details["exception"]
        assert (refused.value.code, told["type"]) == ("policy_error", kind)
        assert 'File "policy.py"' in told["traceback"]
    assert line.ask({"inputs": {"do": "act"}})["outputs"]["seen"] == 1
    ping = worker.ping()
    assert (ping["acts"], ping["errors"]) == (3, 2)


def test_a_copy_that_hangs_is_ended(make):
    """An inference that takes three times the limit ends its copy, which the door finds without an act of its own."""
    worker = make(2, timeouts=Timeouts(request=1)).served()
    hung, other = worker.line(0), worker.line(1)
    hung.send({"inputs": {"do": "hang"}})
    wait_for(lambda: worker.noted("ran") == ["hang"], LIMIT_S)
    worker.until(busy=1, idle_s=0.0)
    with pytest.raises(LineLostError):
        hung.receive()
    assert other.ask({"inputs": {"do": "act"}})["outputs"]["seen"] == 1
    worker.until(copies=2, restarts=1, busy=0)
    assert "ran one inference for over 3 s" in (worker.folder / "log").read_text()


def test_a_turn_of_the_door_is_watched_too(make):
    """A copy that hangs on an act of the door's ends as before, and its lines with it."""
    worker = make(2, timeouts=Timeouts(request=1)).served()
    lines = [worker.line(0), worker.line(1)]
    pids = [line.ask({"inputs": {"do": "act"}})["outputs"]["pid"] for line in lines]
    with worker.client(worker.url) as client:
        assert client.post("/act", json={"inputs": {"do": "hang"}}).status_code == 504
    wait_for(lambda: any(start_time(pid) is None for pid in pids), LIMIT_S)
    hung = next(number for number, pid in enumerate(pids) if start_time(pid) is None)
    with pytest.raises(LineLostError):
        lines[hung].ask({"inputs": {"do": "act"}})
    assert lines[1 - hung].ask({"inputs": {"do": "act"}})["outputs"]["seen"] == 2


def test_an_inference_over_the_limit_is_refused_when_it_ends(make):
    """As `timeout`; the copy goes on."""
    infer = "time.sleep(obs); return obs"
    line = make(1, infer=infer, timeouts=Timeouts(request=1)).served().line()
    with pytest.raises(ActRefusedError, match="infer took over 1 s") as refused:
        line.ask({"inputs": 1.2})
    assert refused.value.code == "timeout"
    assert line.ask({"inputs": 0})["outputs"] == 0


def test_the_acts_of_a_batched_policy_are_gathered_over_its_lines(make):
    """As the door gathers an eval's."""
    batched = "@seq.batched(max_batch_size=4, eval_wait_ms=500)"
    worker = make(1, infer="return [len(obs)] * len(obs)", batched=batched).served()
    lines = [worker.line() for _ in range(8)]
    for line in lines:
        line.send({"inputs": 1})
    answers = [line.receive() for line in lines]
    assert {answer["outputs"] for answer in answers} == {4}
    assert {answer["perf"]["batch_size"] for answer in answers} == {4}


def refused_at_last(line: Acts) -> ActRefusedError:
    """How a line's act is refused, once the copy takes none any more."""
    while True:
        try:
            line.ask({"inputs": {"do": "act"}})
        except ActRefusedError as refused:
            return refused


def test_told_to_end_it_answers_what_it_has(make):
    """Acts that run or wait on a line are answered, later ones refused, episodes end and every copy's hook runs."""
    worker = make(2).served()
    running, waiting, other = worker.line(0), worker.line(0), worker.line(1)
    assert other.ask({"inputs": {"do": "act"}, "episode_id": "e2"})["outputs"]["seen"] == 1
    assert waiting.ask({"inputs": {"do": "act"}})["outputs"]["seen"] == 1
    running.send({"inputs": {"do": "wait"}, "episode_id": "e1"})
    wait_for(lambda: worker.noted("ran") == ["act", "act", "wait"], LIMIT_S)
    worker.child.terminate()
    worker.until(status="draining")
    waiting.send({"inputs": {"do": "act"}})  # the copy hears of it and of the end at the same time
    refused = refused_at_last(other)
    assert (refused.code, refused.details) == ("unavailable", {"reason": "draining"})
    (worker.folder / "go").touch()
    assert [line.receive()["outputs"]["seen"] for line in (running, waiting)] == [2, 3]
    assert worker.child.wait(LIMIT_S) == 0
    assert sorted(line.split()[0] for line in worker.noted("ended")) == ["e1", "e2"]
    assert sorted(worker.noted("bye")) == sorted(worker.noted("loads"))


def test_an_episode_ends_at_the_copy_that_saw_it(make):
    """Told on a line, the policy hears of it once, and of an unknown one never."""
    worker = make(2).served()
    line, other = worker.line(0), worker.line(1)
    pid = line.ask({"inputs": {"do": "act"}, "episode_id": "e1"})["outputs"]["pid"]
    for one in (other, line, line):
        one.end_episode("e1")
        one.ask({"inputs": {"do": "act"}})
    assert worker.noted("ended") == [f"e1 {pid}"]


def test_lines_end_with_their_worker(make):
    """A worker that is killed takes its copies with it, and every line hears of it."""
    worker = make(2).served()
    lines = [worker.line(0), worker.line(1)]
    pids = [line.ask({"inputs": {"do": "act"}})["outputs"]["pid"] for line in lines]
    lines[0].send({"inputs": {"do": "hang"}})
    worker.child.kill()
    for line in lines:
        with pytest.raises(LineLostError):
            line.ask({"inputs": {"do": "act"}})
    wait_for(lambda: all(start_time(pid) is None for pid in pids), LIMIT_S)


def test_what_a_copy_forks_keeps_no_line_open(make):
    """A child that the policy left behind in its group ends with the copy, and so do the lines."""
    infer = """
        if obs == "fork":
            if os.fork() == 0:
                time.sleep(600)
            return os.getpid()
        os.kill(os.getpid(), signal.SIGKILL)"""
    worker = make(2, infer=infer).served()
    line = worker.line(0)
    pid = line.ask({"inputs": "fork"})["outputs"]
    with pytest.raises(LineLostError):
        line.ask({"inputs": "die"})
    # For a moment the child still holds the dead copy's listening socket: who connects then loses that line, too.
    assert wait_for(lambda: _asked(worker, "fork"), limit_s=60) != pid


def _asked(worker, what):
    """What the copy that listens now answers; None where the line is lost."""
    try:
        return worker.line(0).ask({"inputs": what})["outputs"]
    except LineLostError:
        return None


def test_the_secret_opens_a_copys_socket(make):
    """Another secret is closed, and nothing runs."""
    worker = make(1).served()
    with pytest.raises(LineLostError):
        Acts(worker.sockets[0], "another", LIMIT_S).ask({"inputs": {"do": "act"}})
    assert worker.noted("ran") == []
    assert worker.line().ask({"inputs": {"do": "act"}})["outputs"]["seen"] == 1


def test_the_policy_hands_neither_memory_nor_lines_to_what_it_starts(make):
    """A program that the policy starts inherits no descriptor of ours."""
    listed = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    infer = f"""
        import subprocess, sys
        command = [sys.executable, "-c", {listed!r}]
        return subprocess.run(command, close_fds=False, capture_output=True, text=True).stdout"""
    told = make(1, infer=infer).served().line().ask({"inputs": 1})["outputs"]
    alone = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True).stdout
    assert told == alone


def test_time_while_it_is_idle_is_told(make):
    """The ping counts from the last act on a line, too."""
    worker = make(1).served()
    time.sleep(0.3)
    before = worker.ping()["idle_s"]
    worker.line().ask({"inputs": {"do": "act"}})
    assert worker.ping()["idle_s"] < before


def test_a_stopped_copy_ends_once_its_act_is_overdue(make):
    """A copy that is frozen in the middle of an act is ended, and started again."""
    infer = "note('ran', 'x'); os.kill(os.getpid(), signal.SIGSTOP); return 1"
    worker = make(2, infer=infer, timeouts=Timeouts(request=1)).served()
    line = worker.line(0)
    with pytest.raises(LineLostError):
        line.ask({"inputs": 1})
    worker.until(copies=2, restarts=1)
