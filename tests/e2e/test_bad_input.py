"""Bad input through the real command: the right exit code, one sentence, nothing half-made left."""

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.e2e.harness import CONTENT, Platform, eval_id_of

POLICY = """
import seq

ACTION = seq.ActionContract(robot="dot", action_space="ee_delta", action_dim={dim}, control_frequency_hz=10)


@seq.policy(name="{name}", gpu="cpu", action=ACTION{extra})
class P(seq.Policy):
    {load}

    @seq.infer
    def infer(self, obs, *, seed=None):
        return {answer}
"""
BENCHMARK = """
import seq

ACTION = seq.ActionContract(robot="dot", action_space="ee_delta", action_dim=1, control_frequency_hz=10)


class Dot:
    x = 0.0

    def observe(self):
        return {{"x": self.x}}

    def step(self, action):
        self.x += float(action[0])


CONDITIONS = seq.conditions(tasks=["go"], seeds=range(3))


@seq.benchmark(name="{name}", gpu="cpu", cpu=1, conditions=CONDITIONS, max_steps=5, action_contract=ACTION)
class {cls}(seq.Benchmark):
    @seq.reset
    def reset(self, seed, variant):
        return Dot()

    @seq.check
    def check(self, env):
        return {step}
"""
GOOD_STEP = 'seq.Step(done=env.x >= 3, metrics={"success": float(env.x >= 3)})'


def policy(name: str, *, dim: int = 1, answer: str = "[[1.0]]", load: str = "", extra: str = "") -> str:
    return POLICY.format(name=name, dim=dim, answer=answer, load=load or "x = 1", extra=extra)


def benchmark(name: str, *, cls: str = "B", step: str = GOOD_STEP) -> str:
    return BENCHMARK.format(name=name, cls=cls, step=step)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def refused(platform: Platform, *args: str | Path, exits: int, code: str, says: str) -> str:
    """Run `seq`; hold exit code, error code and sentence; return what it printed."""
    done = platform.run(*args, timeout=300)
    text = done.stdout + done.stderr
    assert done.returncode == exits, text
    assert f"error[{code}]: " in done.stderr, text
    assert says in text, text
    assert "most recent call last" not in done.stderr.split("error[")[0], text
    assert platform.api("GET", "/healthz").status_code == 200
    return text


@pytest.fixture(scope="module", autouse=True)
def good(shared: Platform, tmp_path_factory) -> Platform:
    """A dot that moves and a policy that moves it."""
    folder = tmp_path_factory.mktemp("good")
    shared.seq("deploy", write(folder, "good_policy.py", policy("dot-policy")))
    shared.seq("deploy", write(folder, "good_benchmark.py", benchmark("dot-benchmark")))
    return shared


RUN = ("eval", "run", "dot-policy", "--benchmark", "dot-benchmark")


def test_two_policies_in_one_file(shared: Platform, tmp_path) -> None:
    """Which one is meant is asked for, not guessed."""
    text = policy("one") + policy("two").replace("class P", "class Q")
    refused(shared, "deploy", write(tmp_path, "pair.py", text), exits=2, code="invalid_request", says=":P")
    assert "one" not in shared.seq("policy", "ls").split()


def test_a_syntax_error(shared: Platform, tmp_path) -> None:
    """File and line are named."""
    refused(
        shared,
        "deploy",
        write(tmp_path, "broken.py", "import seq\nclass :\n"),
        exits=2,
        code="invalid_request",
        says="line 2",
    )


def test_a_package_missing_here(shared: Platform, tmp_path) -> None:
    """An import at the top of the file that this machine lacks is named, with where to put it."""
    text = "import no_such_package_at_all\n" + policy("lacks")
    refused(
        shared,
        "deploy",
        write(tmp_path, "lacks.py", text),
        exits=2,
        code="invalid_request",
        says="no_such_package_at_all",
    )


def test_a_package_missing_in_the_image(shared: Platform, tmp_path) -> None:
    """The build fails with the policy's own error and nothing serves."""
    load = "@seq.load\n    def load(self, weights_dir):\n        import no_such_package_at_all"
    path = write(tmp_path, "lacks_there.py", policy("lacks-there", load=load))
    refused(shared, "deploy", path, exits=5, code="conflict", says="No module named 'no_such_package_at_all'")
    assert not [row for row in shared.status()["workers"] if row["deployment"] == "lacks-there" and row["pid"]]


def test_a_load_that_fails(shared: Platform, tmp_path) -> None:
    """The author's exception and line are shown."""
    load = (
        "@seq.load\n    def load(self, weights_dir):\n        raise ValueError('the checkpoint is for another robot')"
    )
    text = refused(
        shared,
        *("deploy", write(tmp_path, "bad_load.py", policy("bad-load", load=load))),
        exits=5,
        code="conflict",
        says="the checkpoint is for another robot",
    )
    assert "bad_load.py" in text


def test_a_load_that_hangs(shared: Platform, tmp_path) -> None:
    """It is ended at its declared limit, and its process with it."""
    load = "@seq.load\n    def load(self, weights_dir):\n        import time\n        time.sleep(3600)"
    extra = ", timeouts=seq.Timeouts(startup=60)"
    path = write(tmp_path, "hangs.py", policy("hangs", load=load, extra=extra))
    refused(shared, "deploy", path, exits=5, code="conflict", says="60 s")
    assert not [row for row in shared.status()["workers"] if row["deployment"] == "hangs" and row["pid"]]


def test_an_adapter_that_raises(shared: Platform, tmp_path) -> None:
    """The eval fails, the report says which adapter and why, and exits 1."""
    text = """
    import seq

    def broken(observation):
        raise KeyError("no such camera")

    @seq.adapter(name="raising")
    class Raising(seq.Adapter):
        policy_io = "own"
        obs_transforms = [seq.tf.custom("broken", broken, lossless=True)]
        action_transforms = [seq.tf.identity()]
    """
    done = shared.run(*RUN, "--adapter", f"{write(tmp_path, 'raising.py', text)}:Raising")
    assert done.returncode == 1
    assert "no such camera" in done.stdout + done.stderr
    assert "Raising.obs()" in done.stdout + done.stderr


def test_a_check_without_metrics(shared: Platform, tmp_path) -> None:
    """Nothing to score is refused, never reported as a zero."""
    shared.seq("deploy", write(tmp_path, "mute.py", benchmark("mute", step="seq.Step(done=env.x >= 3)")))
    done = shared.run("eval", "run", "dot-policy", "--benchmark", "mute")
    assert done.returncode == 1
    assert "metric" in done.stdout + done.stderr


def test_dimensions_that_differ_without_an_adapter(shared: Platform, tmp_path) -> None:
    """Refused before anything runs, asking for an adapter."""
    shared.seq("deploy", write(tmp_path, "wide.py", policy("wide", dim=3, answer="[[1.0, 1.0, 1.0]]")))
    refused(
        shared,
        *("eval", "run", "wide", "--benchmark", "dot-benchmark"),
        exits=2,
        code="invalid_request",
        says="adapter",
    )


def test_an_unknown_task(shared: Platform) -> None:
    """Answered with the tasks there are."""
    refused(shared, *RUN, "--tasks", "fly", exits=2, code="invalid_request", says="go")


@pytest.mark.parametrize(
    "flags",
    [["--trials", "0"], ["--envs", "0"], ["--envs", "x"], ["--tasks", ""], ["--trials", "-5"], ["--timeout", "nan"]],
    ids=" ".join,
)
def test_counts_that_cannot_be(shared: Platform, flags: list[str]) -> None:
    """Malformed counts never reach the platform."""
    before = shared.json("eval", "ls", "dot-policy")["total"]
    done = shared.run(*RUN, *flags)
    assert done.returncode == 2
    assert "error[invalid_request]: " in done.stderr
    assert shared.json("eval", "ls", "dot-policy")["total"] == before


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [("nan", "[[float('nan')]]", "nan"), ("short", "[[]]", "row 0"), ("long", "[[1.0, 2.0]]", "row 0")],
)
def test_rows_that_no_robot_may_be_handed(shared: Platform, tmp_path, name: str, answer: str, says: str) -> None:
    """NaN or a wrong length is the episode's error, told with its place; nothing is scored."""
    shared.seq("deploy", write(tmp_path, f"{name}_rows.py", policy(f"{name}-rows", answer=answer)))
    done = shared.run("eval", "run", f"{name}-rows", "--benchmark", "dot-benchmark")
    assert done.returncode == 1, done.stdout + done.stderr
    assert says in (done.stdout + done.stderr).lower()


def test_a_taken_benchmark_name(shared: Platform, tmp_path) -> None:
    """A second benchmark of another class under the same name is a conflict, and the first one stays."""
    path = write(tmp_path, "good_benchmark2.py", benchmark("dot-benchmark", cls="Other"))
    refused(shared, "deploy", path, exits=5, code="conflict", says="dot-benchmark")
    shared.seq(*RUN)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_while_recording(shared: Platform) -> None:
    """The video is lost and told; the score is what it would have been, and no half file is left."""
    folder = shared.home / "blobs" / "eval"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        (folder / "ballast").write_bytes(bytes(1024 * 1024 - 16384))
        run = ("eval", "run", "panda-expert", "--benchmark", "panda-tabletop", "--adapter", "panda-joints")
        out = shared.seq(*run, "--tasks", "reach", "--variants", "surface=standard", "--trials", "2", "--record", "all")
        report = shared.api("GET", f"/v1/eval/{eval_id_of(out)}").json()
        assert report["metrics"]["success"]["n"] == 2
        assert report["videos"] == []
        assert "No space left" in out
        # A trajectory is small enough for the room that a video leaves when it is given up.
        left = {path.name for path in folder.rglob("*") if path.is_file()}
        assert left - {"trajectory.jsonl.gz"} == {"ballast"}
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_shipped_content_is_valid(shared: Platform) -> None:
    """Every shipped file passes `seq validate`."""
    for path in CONTENT.values():
        shared.seq("validate", path)
