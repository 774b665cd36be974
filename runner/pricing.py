"""This project's own price list: round figures of a plausible size, set here and charged to nobody.

Estimates and reports turn processor and card time into dollars by it. Render speeds are left open: none was
measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Card:
    """A card that `gpu=` can name: dollars an hour, GiB of memory, and what it is good for."""

    gpu: str
    usd_per_hour: float
    vram_gb: int
    benchmark: bool = False
    rt_core: bool = False
    nvenc: bool = False
    policy: bool = True
    render_ms: float | None = None


CARDS = (
    Card("L4", 0.85, 24, benchmark=True, rt_core=True, nvenc=True),
    Card("A100-40GB", 1.90, 40),
    Card("RTX-PRO-6000", 2.40, 96, benchmark=True, rt_core=True, nvenc=True),
    Card("A100", 2.60, 80),
    Card("H100", 4.10, 80),
    Card("B200", 6.60, 192),
)
USD_PER_CORE_HOUR = 0.048
USD_PER_GIB_HOUR = 0.006
MIN_BILLABLE_S = 60
REGIONS = {"us": 1.15, "eu": 1.15, "ap": 1.15, "us-east": 1.75, "us-west": 1.75, "eu-west": 1.75, "ap-northeast": 1.75}


def cpu_usd(core_s: float, gib_s: float = 0.0) -> float:
    """What so many core-seconds and GiB-seconds cost."""
    return (core_s * USD_PER_CORE_HOUR + gib_s * USD_PER_GIB_HOUR) / 3600


def price_list() -> dict[str, Any]:
    """The list as `GET /v1/pricing` answers it."""
    return {
        "gpus": [asdict(card) | {"usd_per_second": round(card.usd_per_hour / 3600, 8)} for card in CARDS],
        "cpu": {"usd_per_core_hour": USD_PER_CORE_HOUR},
        "memory": {"usd_per_gib_hour": USD_PER_GIB_HOUR},
        "compute_billed": True,
        "min_billable_s": MIN_BILLABLE_S,
        "regions": [{"region": region, "multiplier": multiplier} for region, multiplier in REGIONS.items()],
    }
