"""Use and bills: true, or refused in a sentence."""

from __future__ import annotations

import pytest

SPAN = {"from": "2030-01-01", "to": "2030-01-31"}


def test_a_bill_has_no_rows_and_says_why(client):
    """Nothing is charged here: the bill is empty as JSON and a header alone as CSV."""
    assert client.get("/v1/account/billing", params=SPAN).json()["rows"] == []
    assert "charges nobody" in client.get("/v1/account/billing", params=SPAN).json()["note"]
    text = client.get("/v1/account/billing", params=SPAN | {"format": "csv"})
    assert text.text == "day,deployment,resource,qty,unit,usd\n"
    assert text.headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize(
    ("change", "named"),
    [({"from": "today"}, "from"), ({"to": None}, "to"), ({"to": "2029-12-31"}, "to"), ({"format": "xml"}, "format")],
)
def test_a_bill_is_asked_for_by_days(client, change, named):
    """What is no span of days, and another format, are refused by name."""
    params = {key: value for key, value in (SPAN | change).items() if value is not None}
    answer = client.get("/v1/account/billing", params=params)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert named in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/deployments/arm/usage?days=7", "/v1/account/usage?by=day&tz=UTC&group=kind"])
def test_use_that_is_not_recorded_is_refused_and_not_made_up(client, things, path):
    """There is no number to tell, so none is told; the refusal says what is missing and where to look instead."""
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert "not recorded" in answer.json()["detail"]
    assert "seq policy status" in answer.json()["hint"]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/v1/deployments/arm/usage?days=0", "days"),
        ("/v1/deployments/arm/usage?days=367", "days"),
        ("/v1/account/usage?by=week", "by"),
        ("/v1/account/usage?group=robot", "group"),
    ],
)
def test_spans_and_groups_that_there_are_not_are_refused_by_name(client, things, path, named):
    """What is wrong with the question comes before what is wrong with the answer."""
    detail = client.get(path).json()["detail"]
    assert named in detail
    assert "not recorded" not in detail
