"""What importing the client loads."""

import subprocess
import sys

HEAVY = {"numpy", "PIL", "ray", "pydantic", "mujoco", "seq", "runner", "sims", "sequence_base"}


def test_import_loads_nothing_heavy_and_nothing_else_of_ours():
    """Importing the client, its testing module too, loads no numpy, Pillow, Ray, pydantic, simulator or other part."""
    code = "import sys, sequence_ai, sequence_ai.testing; print(*sorted(name.split('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())
