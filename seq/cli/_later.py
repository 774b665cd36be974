"""Commands of the product that this release does not have, and what to do meanwhile: the one place that names them."""

from __future__ import annotations

_VERSIONS = "deploying the earlier file again makes it the newest version"
_OPERATING = "operating a fleet (traffic, budgets, alerts, usage) comes with a later release"
_PORTING = "porting a CPU benchmark to the GPU comes with a later release"
_STORAGE = "volumes and secrets can be listed, not changed; storing them comes with a later release"
_MONEY = "a local platform bills nobody; `seq gpus` shows the price list that estimates use"
_ROBOTS = "following robots from the platform comes with a later release"

LATER: dict[str, str] = {
    "policy doctor": "`seq policy status NAME` says how it is, `seq policy logs NAME --build` why a build failed",
    "policy versions": _VERSIONS,
    "policy rollback": _VERSIONS,
    "policy traffic": _OPERATING,
    "policy rename": "`seq deploy FILE --name NEW` deploys the same file under another name",
    "policy params": "a robot gives params= when it connects",
    "policy usage": _OPERATING,
    "policy budget": _OPERATING,
    "policy alerts": _OPERATING,
    "policy capture": "capturing field data comes with a later release",
    "policy data": "exporting field data comes with a later release",
    "policy estimate": "`seq gpus` shows the prices, `seq eval run --dry-run` what an eval takes",
    "benchmark evals": "`seq eval ls POLICY --benchmark NAME` lists a policy's evals on it",
    "benchmark logs": "`seq benchmark status NAME` says why a registration failed",
    "benchmark export": _PORTING,
    "benchmark check-model": _PORTING,
    "benchmark scaffold": _PORTING,
    "benchmark compare": _PORTING,
    "benchmark convert": _PORTING,
    "eval logs": "`seq eval report ID` shows each cause of errors with one traceback",
    "volume put": _STORAGE,
    "volume rm": _STORAGE,
    "secret set": _STORAGE,
    "secret rm": _STORAGE,
    "billing": _MONEY,
    "billing export": _MONEY,
    "usage": _MONEY,
    "audit": "who did what is not kept yet",
    "robot": _ROBOTS,
    "fleet": _ROBOTS,
}
