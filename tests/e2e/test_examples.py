"""The shipped callers, run against real deployments."""

import subprocess
import sys

import pytest

from tests.e2e.harness import CONTENT, Platform


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("toy-policy", "move "),
        ("panda-expert", "joint_absolute, franka_panda, 20 Hz"),
        ("panda-still", "joint_absolute, franka_panda, 20 Hz"),
        ("panda-random", "joint_absolute, franka_panda, 20 Hz"),
    ],
)
def test_the_client_of_a_template_drives_its_deployment(shared: Platform, name: str, says: str) -> None:
    """Each `client.py` waits for a worker, acts once and prints what came back, with no key or address set."""
    client = CONTENT[name].with_name("client.py")
    done = subprocess.run(
        [sys.executable, client], env=shared.env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
