"""`seq policy status` and `seq policy scale`: what they show of a fleet, what they send, what they refuse."""

from __future__ import annotations

import json

import pytest

from seq.cli._causes import cause_of, hint, why
from seq.cli._fleet import shortened

FLEET = "/v1/deployments/arm/fleet"
SCALING = "/v1/deployments/arm/scaling"
STANDS = {
    "min_workers": 1,
    "buffer_workers": 0,
    "max_gpus": None,
    "idle_timeout": 600,
    "on_full": "queue",
    "queue_timeout_s": 120,
}
READY = {
    "handle": "worker-aaaaaaaa1111",
    "state": "ready",
    "gpu": "L4",
    "cards": 2,
    "slots": 4,
    "sessions": 3,
    "age_s": 720.0,
    "started_at": "2026-01-01T00:00:00Z",
    "reason": "cold-start",
}
DEAD = {
    **READY,
    "handle": "worker-bbbbbbbb2222",
    "state": "failed",
    "sessions": 0,
    "reason": "unhealthy (gpu_out_of_memory)",
    "error": "2 of 4 copies came up",
}
BOUNDS = {"max_gpus": 4, "on_full": "queue", "queue_timeout_s": 120, "target": 4, "max": 6}
FULL = {
    **BOUNDS,
    "workers": [READY, DEAD],
    "queue": [{"position": 1, "session": "0123456789abcdef", "queued_s": 12.0}],
    "last_failure": {
        "cause": "gpu_out_of_memory",
        "version": 3,
        "at": "2026-01-01T00:10:00Z",
        "details": {"per_replica_vram_mb": 9216, "declared": 4, "reached": 2},
    },
}


@pytest.fixture
def shown(seq, gateway):
    """What `seq policy status arm` prints for a fleet block, each line with single spaces."""

    def show(block, status="ready", **state):
        gateway.on("GET", "/v1/deployments/arm", {"status": status, "model": "arm", **state})
        gateway.on("GET", FLEET, block)
        ended = seq("policy", "status", "arm")
        assert ended.code == 0, ended.err
        return [" ".join(line.split()) for line in ended.out.splitlines()]

    return show


def test_status_shows_the_fleet_from_top_to_bottom(shown):
    """Workers with why each is there or died, robots in line, bounds, the last failure and what helps."""
    assert shown(FULL) == [
        "arm: ready",
        "worker state card slots sessions started why",
        "worker-aaaaaaaa ready L4:2 4 3 12 min ago a robot asked for one",
        "worker-bbbbbbbb failed L4:2 4 0 12 min ago out of GPU memory",
        "in line session waiting for",
        "1 01234567 12 s",
        "max GPUs: 4",
        "on full: queue, 120 s at most",
        "robots a worker: 4 before another one starts, 6 at most",
        "worker-bbbbbbbb failed: 2 of 4 copies came up",
        "last failure of v3: out of GPU memory, 2026-01-01T00:10:00Z",
        "hint: 2 of 4 copies came up: lower replicas_per_gpu; a copy takes 9.0 GiB",
    ]


def test_status_as_json_is_what_the_platform_sent(seq, gateway):
    """The state with the fleet block in it, nothing shortened."""
    gateway.on("GET", "/v1/deployments/arm", {"status": "ready", "model": "arm"})
    gateway.on("GET", FLEET, FULL)
    assert json.loads(seq("policy", "status", "arm", "--json").out) == {
        "status": "ready",
        "model": "arm",
        "fleet": FULL,
    }


@pytest.mark.parametrize("block", [{}, {"workers": []}, {"workers": [{**READY, "state": "stopped"}]}])
def test_without_a_running_worker_status_says_when_one_starts(shown, block):
    """Also where the last one has ended, and on a platform that tells nothing of a fleet."""
    lines = shown(block)
    assert lines[0] == "arm: ready"
    assert "no worker runs; one starts when a robot connects" in lines
    assert len(lines) == 2 + 2 * len(block.get("workers", []))


def test_a_platform_without_a_fleet_is_no_failure(seq, gateway):
    """A 404 there leaves the state alone."""
    gateway.on("GET", "/v1/deployments/arm", {"status": "building", "model": "arm"})
    assert seq("policy", "status", "arm").out == "arm: building\n"


def test_words_that_are_not_known_print_nothing(shown):
    """A reason, a cause and parts of a later platform are left out; what they stand beside is still shown."""
    later = {**READY, "reason": "moonlight", "leaving": "soon", "group": None, "state": "dreaming"}
    lines = shown({**BOUNDS, "workers": [later], "last_failure": {"cause": "moonlight"}, "weather": {"rain": 1}})
    assert lines[2] == "worker-aaaaaaaa dreaming L4:2 4 3 12 min ago"
    assert not any("moonlight" in line or "last failure" in line or "hint" in line for line in lines)


def test_what_rests_on_pretend_cards_says_so(shown):
    """Beside the card, and once below, whether the block or the worker tells it; a CPU worker pretends nothing."""
    for block in ({"workers": [{**READY, "pretend": True}]}, {"pretend": True, "workers": [READY]}):
        lines = shown(block)
        assert "L4:2 (pretend)" in lines[2]
        assert sum(line.startswith("pretend: ") for line in lines) == 1
    cpu = {**READY, "gpu": "cpu", "cards": 0}
    assert "(pretend)" not in shown({"pretend": True, "workers": [cpu]})[2]
    assert not any("pretend" in line for line in shown({"workers": [READY]}))


def test_each_machine_of_a_group_is_shown(shown):
    """Its rank, its state and when it last answered."""
    members = [{"rank": 0, "state": "ready", "beat_age_s": 1.0}, {"rank": 1, "state": "lost", "beat_age_s": None}]
    lines = shown({"workers": [{**READY, "group": {"size": 2, "members": members}}]})
    at = lines.index("worker machine state last answered")
    assert lines[at + 1 : at + 3] == ["worker-aaaaaaaa 0 ready 1.0 s ago", "worker-aaaaaaaa 1 lost"]


def test_prices_and_sizing_are_shown_where_the_platform_tells_them(shown):
    """An hour of one worker, of all it may have, and how many copies fit; a part without its number is left out."""
    priced = {
        "price": {"card": "L4", "usd_per_hour": 0.9},
        "ceiling": {"workers": 4, "usd_per_hour": 3.6},
        "capacity": {"per_copy_vram_mb": 9216, "fits": 2},
    }
    assert shown({"workers": [READY], **priced})[-3:] == [
        "price: $0.9000 an hour for a worker on L4",
        "ceiling: 4 worker(s), $3.60 an hour",
        "sizing: a copy takes 9.0 GiB, 2 fit on a card",
    ]
    assert len(shown({"workers": [READY], "price": {}, "ceiling": {"workers": 1}, "capacity": None})) == 3


def test_no_limit_and_no_queue_are_said(shown):
    """A deployment without max_gpus has none of its own; one that rejects has no time to wait."""
    lines = shown({**BOUNDS, "max_gpus": None, "on_full": "reject"})
    assert lines[2:4] == ["max GPUs: no limit of its own", "on full: reject"]


def test_a_hint_is_given_once_for_each_cause(shown):
    """Ten workers that died of one thing need one sentence; the last failure's own numbers win."""
    dead = [{**DEAD, "handle": f"worker-{number}", "error": None} for number in range(10)]
    crashed = {**DEAD, "handle": "worker-x", "reason": "crashed", "error": None}
    hints = [line for line in shown({**FULL, "workers": [*dead, crashed]}) if line.startswith("hint: ")]
    assert [text.split(":")[1].split(" ")[1] for text in hints] == ["2", "its"]


@pytest.mark.parametrize(
    ("cause", "details", "told"),
    [
        ("gpu_out_of_memory", {}, "lower replicas_per_gpu, or ask for a card with more memory"),
        ("gpu_out_of_memory", {"reached": 0, "declared": 2}, "0 of 2 copies came up: one copy alone does not fit"),
        ("host_out_of_memory", {"reached": 1, "declared": 2}, "1 of 2 copies came up: lower replicas_per_gpu"),
        ("host_out_of_memory", {}, "more memory (memory=)"),
        ("crashed", {}, "log"),
        ("stuck", {}, "never returns"),
        ("group_member_lost", {}, "starts a new one"),
    ],
)
def test_each_known_death_has_a_remedy(cause, details, told):
    """What to do, with how many copies came up where that is known."""
    assert told in hint(cause, details)


def test_a_reason_is_read_alone_and_within_unhealthy():
    """The published words; anything else, also none and what is no text, is unknown."""
    assert [cause_of(word) for word in ("stuck", "unhealthy (stuck)", "unhealthy")] == ["stuck", "stuck", "unhealthy"]
    assert [cause_of(word) for word in ("", None, 7, "unhealthy (bored)", "stuck again")] == [None] * 5
    assert why({"reason": "idle-cooldown", "leaving": "version"}) == "leaving: another version serves"


def test_shortened_names_stay_apart():
    """Eight characters after the kind, more only where two would look alike."""
    assert shortened(["worker-abcdefghij", "check-abcdefghij", "plainhandle"]) == {
        "worker-abcdefghij": "worker-abcdefgh",
        "check-abcdefghij": "check-abcdefgh",
        "plainhandle": "plainhan",
    }
    assert set(shortened(["worker-abcdefgh1x", "worker-abcdefgh2x"]).values()) == {
        "worker-abcdefgh1",
        "worker-abcdefgh2",
    }
    assert shortened(["w-1", "w-2"]) == {"w-1": "w-1", "w-2": "w-2"}


def test_scale_sends_what_was_given_and_shows_what_stands(seq, gateway):
    """Each flag by the wire's name, the merged settings after it; nothing that was not given is sent."""
    gateway.on("PUT", SCALING, STANDS)
    flags = ("--min", "1", "--buffer", "0", "--max-gpus", "4", "--idle-timeout", "30", "--on-full", "reject")
    ended = seq("policy", "scale", "arm", *flags, "--queue-timeout", "5")
    assert ended.code == 0, ended.err
    assert gateway.sent("PUT", SCALING) == [
        {
            "min_workers": 1,
            "buffer_workers": 0,
            "max_gpus": 4,
            "idle_timeout": 30,
            "on_full": "reject",
            "queue_timeout_s": 5,
        }
    ]
    rows = [line.split()[:2] for line in ended.out.splitlines()[1:]]
    assert rows == [
        ["--min", "1"],
        ["--buffer", "0"],
        ["--max-gpus", "none"],
        ["--idle-timeout", "600"],
        ["--on-full", "queue"],
        ["--queue-timeout", "120"],
    ]


def test_scale_without_flags_changes_nothing(seq, gateway):
    """It reads the settings; as JSON they are the platform's own."""
    gateway.on("GET", SCALING, STANDS)
    assert "--max-gpus" in seq("policy", "scale", "arm").out
    assert json.loads(seq("policy", "scale", "arm", "--json").out) == STANDS
    assert {request.method for request in gateway.requests} == {"GET"}


def test_no_limit_of_cards_is_null_on_the_wire(seq, gateway):
    """`--max-gpus none`, and nothing else beside it."""
    gateway.on("PUT", SCALING, STANDS)
    assert seq("policy", "scale", "arm", "--max-gpus", "none").code == 0
    assert gateway.sent("PUT", SCALING) == [{"max_gpus": None}]


def test_the_old_name_of_idle_timeout_still_works(seq, gateway):
    """Alone; both names at once would contradict each other."""
    gateway.on("PUT", SCALING, STANDS)
    assert seq("policy", "scale", "arm", "--scaledown", "30").code == 0
    assert gateway.sent("PUT", SCALING) == [{"idle_timeout": 30}]
    both = seq("policy", "scale", "arm", "--scaledown", "30", "--idle-timeout", "40")
    assert both.code == 2
    assert "give only --idle-timeout" in both.err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--min", "-1"), "--min -1: give 0 to 256"),
        (("--buffer", "257"), "--buffer 257: give 0 to 256"),
        (("--max-gpus", "0"), "--max-gpus 0: give 1 to 256, or none"),
        (("--max-gpus", "many"), "--max-gpus many: give 1 to 256, or none"),
        (("--max-gpus", "257", "--min", "1"), "--max-gpus 257: give 1 to 256, or none"),
        (("--idle-timeout", "0"), "--idle-timeout 0: give 1 or more"),
        (("--scaledown", "0"), "--idle-timeout 0: give 1 or more"),
        (("--queue-timeout", "4"), "--queue-timeout 4: give 5 to 3600"),
        (("--queue-timeout", "3601"), "--queue-timeout 3601: give 5 to 3600"),
        (("--min", "two"), "--min"),
        (("--on-full", "drop"), "'queue', 'reject'"),
        (("--rotate-after", "600"), "--rotate-after: warm schedules and rotation are not on this platform yet"),
        (("--min", "2", "--during", "Mon-Fri 08:00-18:00", "--tz", "UTC"), "--during, --tz: warm schedules"),
        (("--clear",), "nothing was changed"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(seq, gateway, flags, told):
    """Impossible numbers with their range, flags without an effect yet: one sentence, exit 2."""
    ended = seq("policy", "scale", "arm", *flags)
    assert ended.code == 2
    assert told in ended.err
    assert gateway.requests == []


def test_stop_and_start_say_what_they_did(seq, gateway):
    """How many workers end, and which version serves again."""
    gateway.on("POST", "/v1/deployments/arm/stop", {"name": "arm", "workers_stopped": 2})
    gateway.on("POST", "/v1/deployments/arm/start", {"name": "arm", "version": 3})
    assert seq("policy", "stop", "arm").out == "stopped arm; 2 worker(s) end\n"
    assert seq("policy", "start", "arm").out == "started arm: v3 serves\n"
