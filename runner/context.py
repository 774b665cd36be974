"""What every part of the control side is given: settings, store, cluster, time and randomness."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from runner.bell import Bell
from runner.clock import Clock
from runner.cluster.base import Cluster
from runner.settings import Settings
from runner.store.blobs import Blobs
from runner.store.db import Store
from runner.vault import Vault


@dataclass(frozen=True)
class Context:
    """Made once, in `runner.main`; tests make their own from the shipped fakes.

    `wake` is set after every commit that changes what is wanted; the reconcile loop waits on it. `bell` is rung, by a
    deployment's id, after every commit that frees a slot. `new_id` draws 32 hex digits, `new_secret` a URL-safe text
    of 43 characters.
    """

    settings: Settings
    store: Store
    blobs: Blobs
    cluster: Cluster
    clock: Clock
    vault: Vault
    new_id: Callable[[], str]
    new_secret: Callable[[], str]
    wake: threading.Event = field(default_factory=threading.Event)
    bell: Bell = field(default_factory=Bell)
