"""What an eval may ask for on the wire and this platform does not do yet: refused by name, never ignored. Pure."""

from __future__ import annotations

from runner.errors import Refused
from seq.contract.evals import EvalRequest

UNBUILT = {
    "compare": "several policies in one eval (--compare) are not built yet; run one eval for each policy",
    "sweep": "parameter sweeps (--sweep) are not built yet; run one eval for each value",
    "params": "parameters of an eval (--param) are not built yet; change the default in the declaration and deploy it",
    "max_usd": "a spending bound (--max-usd) is not built yet; ask for fewer trials instead",
    "region": "this platform has one place to run; leave out --region",
    "rerun_of": "running failed episodes again (--rerun-failed) is not built yet; run the eval again",
    "rerun_unsuccessful_of": (
        "running unsuccessful episodes again (--rerun-unsuccessful) is not built yet; run the eval again with --tasks"
    ),
    "metric": "--metric belongs to --rerun-unsuccessful, which is not built yet",
}


def refuse_unbuilt(request: EvalRequest) -> None:
    """Raise Refused on the first field that asks for something this platform does not do."""
    for field, sentence in UNBUILT.items():
        if getattr(request, field) is not None:
            raise Refused("invalid_request", sentence)
