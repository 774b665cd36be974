"""Pretend cards: layouts are tried with them, what rests on them says so, and nothing runs on a card."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.harness import CONTENT, Platform, eval_id_of, lives, wait_for

SEES_NO_CARD = """
    @seq.load
    def load(self, weights_dir):
        import os
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "", "a card can be seen"

"""


def on_a_card(name: str, folder: Path, hook: str = "") -> Path:
    """A toy that asks for an L4; `hook` is put before its first method."""
    text = CONTENT[name].read_text().replace('gpu="cpu"', 'gpu="L4"', 1).replace("    cpu=4,\n", "")
    target = folder / CONTENT[name].name
    target.write_text(text.replace("    @seq.infer\n", f"{hook.lstrip(chr(10))}    @seq.infer\n", 1))
    return target


def test_a_policy_on_a_pretend_card_is_built_served_and_scored(bare_home: Platform, tmp_path: Path) -> None:
    """Its processes see no card; the build's log, the dry run and the report say what the result rests on."""
    platform = bare_home
    assert "3 x L4" in platform.seq("up", "--pretend", "L4:3")
    platform.seq("deploy", on_a_card("toy-policy", tmp_path, SEES_NO_CARD), timeout=900)
    platform.seq("deploy", on_a_card("toy-benchmark", tmp_path), timeout=900)
    platform.deploy("toy-adapter")
    assert "pretend (3 x L4)" in platform.api("GET", "/v1/deployments/toy-policy/build").json()["log"]
    robot = [sys.executable, CONTENT["toy-policy"].with_name("client.py")]
    drove = subprocess.run(robot, env=platform.env, capture_output=True, text=True, timeout=300, check=False)
    assert drove.returncode == 0, drove.stderr
    assert "move +0.050 m" in drove.stdout
    run = ("eval", "run", "toy-policy", "--benchmark", "toy-benchmark", "--adapter", "toy-adapter", "--trials", "1")
    assert "pretend (3 x L4)" in platform.seq(*run, "--dry-run")
    eval_id = eval_id_of(platform.seq(*run))
    manifest = platform.api("GET", f"/v1/eval/{eval_id}/details").json()["manifest"]
    assert (manifest["pretend"], manifest["layout"]["policies"][0]["machines"]["card"]) == (True, "L4")
    assert "cards: pretend" in platform.seq("eval", "report", eval_id)


def test_pretend_cards_last_as_long_as_their_platform(bare_home: Platform) -> None:
    """A gateway that was killed comes back with them, none are exchanged while it runs, and `seq down` ends them."""
    platform = bare_home
    for wrong in ("L4:0", "L4:x", "cpu:2", "L5:2"):
        assert platform.run("up", "--pretend", wrong).returncode == 2
    said = platform.seq("up", "--pretend", "L4:2", "--pretend", "H100:16", "--gpus-per-account", "16")
    assert "16 x H100, 2 x L4" in said
    assert "pretend" in said
    refused = platform.run("up", "--pretend", "L4:1")
    assert (refused.returncode, "seq down" in refused.stderr) == (5, True)
    killed = platform.address["pid"]
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: not lives(killed))
    refused = platform.run("up", "--pretend", "L4:1")
    assert (refused.returncode, "seq down" in refused.stderr) == (5, True)
    assert "pretend" in platform.seq("up")
    assert "pretend" in platform.seq("status")
    assert (platform.status()["cards"], platform.status()["pretend"]) == ({"L4": 2, "H100": 16}, True)
    platform.seq("down")
    assert "pretend" not in platform.seq("up")
    assert (platform.status()["cards"], platform.status()["pretend"]) == ({}, False)
    assert platform.address["gpus_per_account"] == 16
