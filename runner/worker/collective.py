"""The process group of torch over the machines of a group, made before any of the policy's code is imported."""

from __future__ import annotations

import importlib
import importlib.util


def join() -> None:
    """Wait for the other machines, where the policy's environment has torch; another framework joins by itself.

    RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say where. NCCL needs cards; without any it is gloo.
    """
    if importlib.util.find_spec("torch") is None:
        return
    backend = "nccl" if importlib.import_module("torch").cuda.is_available() else "gloo"
    importlib.import_module("torch.distributed").init_process_group(backend)
