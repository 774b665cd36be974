"""`usage`, `billing`, `fleet`, `scale` (sdk.md 9) and the names that may stand in a path (sdk.md 10)."""

import httpx
import pytest

import sequence_ai
from sequence_ai import AuthError, InternalError, InvalidRequest, NotFound, Unavailable

ROW = {"day": "2030-01-02", "deployment": "arm", "resource": "gpu", "qty": 1, "unit": "h", "usd": 0.85}


@pytest.fixture(autouse=True)
def _served(platform, monkeypatch):
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    monkeypatch.setenv("SEQUENCES_API_KEY", platform.key)


def queries(platform, monkeypatch):
    """The queries of all requests from now on."""
    seen = []
    answer = type(platform).__call__

    def noted(self, request):
        seen.append(dict(request.url.params))
        return answer(self, request)

    monkeypatch.setattr(type(platform), "__call__", noted)
    return seen


def test_usage_is_asked_for_days(platform, monkeypatch):
    """usage() returns the days as the platform tells them, 30 unless said otherwise."""
    seen = queries(platform, monkeypatch)
    platform.documents["/v1/deployments/arm/usage"] = {"days": [{"day": "2030-01-02", "calls": 3}]}
    assert sequence_ai.usage("arm") == {"days": [{"day": "2030-01-02", "calls": 3}]}
    sequence_ai.usage("arm", days=366)
    assert seen == [{"days": "30"}, {"days": "366"}]


@pytest.mark.parametrize("days", [0, 367, 1.5, True, "7"])
def test_usage_refuses_other_spans(platform, days):
    """Only 1 to 366 whole days can be asked for."""
    with pytest.raises(InvalidRequest, match="366"):
        sequence_ai.usage("arm", days=days)
    assert platform.sent == []


@pytest.mark.parametrize("told", [[ROW], {"rows": [ROW]}, {"data": [ROW]}])
def test_the_bill_is_a_list_of_rows(platform, monkeypatch, told):
    """billing() gives the rows, whichever of its three forms the answer has."""
    seen = queries(platform, monkeypatch)
    platform.answer_next("/v1/account/billing", httpx.Response(200, json=told))
    assert sequence_ai.billing("2030-01-01", "2030-01-31") == [ROW]
    assert seen == [{"from": "2030-01-01", "to": "2030-01-31", "format": "json"}]


def test_the_bill_as_csv_is_the_text_itself(platform, monkeypatch):
    """With csv=True the text comes back byte for byte, line ends included."""
    seen = queries(platform, monkeypatch)
    text = 'day,deployment\r\n2030-01-02,"arm\r\nleft"\r\n'
    platform.answer_next("/v1/account/billing", httpx.Response(200, text=text, headers={"content-type": "text/csv"}))
    assert sequence_ai.billing("2030-01-01", "2030-01-31", csv=True) == text
    assert seen[0]["format"] == "csv"


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        ("2030-1-1", "2030-01-31", "start"),
        ("2030-02-30", "2030-03-01", "start"),
        ("2030-01-01", "today", "end"),
        ("2030-01-01", None, "end"),
        ("2030-02-01", "2030-01-31", "before"),
    ],
)
def test_a_bill_is_asked_for_by_days(platform, start, end, told):
    """What is no day of the calendar, and an end before the start, are refused here."""
    with pytest.raises(InvalidRequest, match=told):
        sequence_ai.billing(start, end)
    assert platform.sent == []


@pytest.mark.parametrize("content", [b"<html>", b"{}", b'{"rows": 3}'])
def test_a_bill_without_rows_is_the_platforms_fault(platform, content):
    """An answer that holds no rows is InternalError."""
    platform.answer_next("/v1/account/billing", httpx.Response(200, content=content))
    with pytest.raises(InternalError, match="malformed"):
        sequence_ai.billing("2030-01-01", "2030-01-31")


def test_a_refused_bill_is_raised(platform):
    """An error's own words reach the caller, for CSV too."""
    for csv in (False, True):
        with pytest.raises(NotFound, match="no /v1/account/billing"):
            sequence_ai.billing("2030-01-01", "2030-01-31", csv=csv)


def test_the_fleet_tells_workers_and_queue(platform):
    """fleet() returns the block as it is told."""
    block = {"workers": [{"handle": "w"}], "queue": [{"position": 1}], "max_gpus": None}
    platform.documents["/v1/deployments/arm/fleet"] = block
    assert sequence_ai.fleet("arm") == block


def test_only_passed_knobs_change(platform):
    """scale() sends what was passed, a None that means "no limit" included, and returns the block as it is now."""
    platform.documents["/v1/deployments/arm/scaling"] = {"min_workers": 1, "max_gpus": None}
    assert sequence_ai.scale("arm", min_workers=1, max_gpus=None) == {"min_workers": 1, "max_gpus": None}
    sequence_ai.scale("arm", buffer_workers=0, idle_timeout=60, on_full="reject", queue_timeout_s=5)
    first, second = (request.body for request in platform.to("/v1/deployments/arm/scaling"))
    assert first == {"min_workers": 1, "max_gpus": None}
    assert second == {"buffer_workers": 0, "idle_timeout": 60, "on_full": "reject", "queue_timeout_s": 5}


def test_old_names_of_knobs_warn_and_map(platform):
    """min_containers, buffer_containers and scaledown_window still work, and each warns at the caller's line."""
    platform.documents["/v1/deployments/arm/scaling"] = {}
    for old, new in (
        ("min_containers", "min_workers"),
        ("buffer_containers", "buffer_workers"),
        ("scaledown_window", "idle_timeout"),
    ):
        with pytest.warns(UserWarning, match=f"{old}.*{new}") as warned:
            sequence_ai.scale("arm", **{old: 2})
        assert warned[0].filename == __file__
        assert platform.sent[-1].body == {new: 2}


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        ({}, "nothing to change"),
        ({"on_full": "drop"}, "reject"),
        ({"on_full": None}, "reject"),
        ({"max_gpu": 2}, "max_gpus"),
        ({"min_workers": 1, "min_containers": 1}, "only min_workers"),
    ],
)
def test_scale_refuses_what_changes_nothing_or_is_no_knob(platform, knobs, told):
    """Nothing passed, a bad on_full, an unknown knob and one knob by both names: nothing is sent."""
    with pytest.raises(InvalidRequest, match=told):
        sequence_ai.scale("arm", **knobs)
    assert platform.sent == []


@pytest.mark.parametrize("name", ["", "-arm", ".", "..", "a/b", "a b", "é", "arm?x=1", "arm\n", "a" * 129, None, 3])
@pytest.mark.parametrize("call", ["usage", "fleet", "scale"])
def test_a_name_that_nothing_has_never_reaches_a_path(platform, call, name):
    """A name in a URL path begins with a letter or digit and has 128 characters at most; others are not sent."""
    options = {"min_workers": 1} if call == "scale" else {}
    with pytest.raises(InvalidRequest, match="not a name"):
        getattr(sequence_ai, call)(name, **options)
    assert platform.sent == []


def test_names_with_every_allowed_character_are_sent_as_they_are(platform):
    """Letters, digits and . _ - : ~ need no escaping."""
    name = "0aZ._-:~" + "x" * 120
    platform.documents[f"/v1/deployments/{name}/fleet"] = {"workers": []}
    assert sequence_ai.fleet(name) == {"workers": []}


def test_each_needs_a_key(platform, monkeypatch):
    """Without a key nothing is sent."""
    monkeypatch.delenv("SEQUENCES_API_KEY")
    for ask in (
        lambda: sequence_ai.usage("arm"),
        lambda: sequence_ai.fleet("arm"),
        lambda: sequence_ai.scale("arm", min_workers=1),
        lambda: sequence_ai.billing("2030-01-01", "2030-01-02"),
    ):
        with pytest.raises(AuthError):
            ask()
    assert platform.sent == []


def test_a_dropped_connection_is_asked_again_and_silence_is_not(platform):
    """Reading is safe to repeat once where a kept connection broke; a second break is Unavailable."""
    path = "/v1/deployments/arm/fleet"
    platform.documents[path] = {"workers": []}
    platform.answer_next(path, httpx.RemoteProtocolError("gone"))
    assert sequence_ai.fleet("arm") == {"workers": []}
    platform.answer_next(path, httpx.RemoteProtocolError("gone"), httpx.RemoteProtocolError("gone"))
    with pytest.raises(Unavailable):
        sequence_ai.fleet("arm")
