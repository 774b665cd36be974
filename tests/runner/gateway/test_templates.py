"""Templates over HTTP: the shipped content, as any client unpacks it."""

from __future__ import annotations

import io
import tarfile

import pytest

ENTRY = {"policy": "policy.py", "benchmark": "benchmark.py", "adapter": "adapter.py"}


@pytest.fixture
def anyone(connect):
    """A client without a key."""
    return connect(None)


def test_the_walkthroughs_templates_are_listed(anyone):
    """The toys of the walkthrough are there, each with its kind and a stable version."""
    rows = {row["name"]: row for row in anyone.get("/v1/templates").json()["data"]}
    kinds = {name: rows[name]["kind"] for name in ("toy-policy", "toy-benchmark", "toy-adapter")}
    assert kinds == {"toy-policy": "policy", "toy-benchmark": "benchmark", "toy-adapter": "adapter"}
    assert all(row["stable"] == "v1" for row in rows.values())


def test_every_listed_template_can_be_unpacked(anyone):
    """Each archive is a gzip tar of plain files with the kind's entry file, and says its version."""
    for row in anyone.get("/v1/templates").json()["data"]:
        answer = anyone.get(f"/v1/templates/{row['name']}/code", params={"ref": "stable"})
        assert answer.headers["X-Template-Version"] == "v1"
        with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as archive:
            members = archive.getmembers()
        assert ENTRY[row["kind"]] in {member.name for member in members}
        assert all(member.isreg() or member.isdir() for member in members)


def test_unknown_names_and_versions_are_told_apart(anyone):
    """An unknown name says `no template` and names those there are; an unknown version names the one there is."""
    name = anyone.get("/v1/templates/nothing/code")
    assert (name.status_code, name.json()["code"]) == (404, "not_found")
    assert "no template" in name.json()["detail"]
    assert "toy-policy" in name.json()["hint"]
    version = anyone.get("/v1/templates/toy-policy/code", params={"ref": "v99"})
    assert (version.status_code, "no template" in version.json()["detail"]) == (404, False)
    assert anyone.get("/v1/templates/toy-policy/code", params={"ref": "v1"}).status_code == 200
