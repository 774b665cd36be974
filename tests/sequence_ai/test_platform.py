"""Plain questions to the gateway."""

import pytest

import sequence_ai
from sequence_ai import AuthError, InvalidRequest


@pytest.fixture(autouse=True)
def _catalogue(platform, monkeypatch):
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    platform.documents["/v1/models"] = {
        "data": [
            {
                "id": "accounts/s/models/brain",
                "endpoint": "chat",
                "architecture": "vlm",
                "supported_parameters": ["seed"],
            },
            {"id": "accounts/s/models/old", "endpoint": "chat", "architecture": "vlm", "alias_of": "brain"},
        ]
    }
    platform.documents["/v1/templates"] = {"data": [{"name": "toy-policy", "kind": "policy", "stable": "v2"}]}


def test_models_come_before_templates_and_need_no_key(platform):
    """models() lists what is served, aliases left out, then the templates, without a key."""
    brain, toy = sequence_ai.models()
    assert (brain.short_id, brain.kind, brain.supported_parameters) == ("brain", "model", ["seed"])
    assert (toy.id, toy.kind, toy.template_kind, toy.stable) == ("toy-policy", "template", "policy", "v2")
    assert all("authorization" not in sent.headers for sent in platform.sent)


def test_models_can_be_narrowed(platform):
    """kind= and endpoint= ask only for what is wanted; what makes no sense is refused with what would."""
    assert [model.kind for model in sequence_ai.models(kind="template")] == ["template"]
    assert [model.kind for model in sequence_ai.models(endpoint="chat")] == ["model"]
    with pytest.raises(InvalidRequest, match="chat"):
        sequence_ai.models(endpoint="act")
    with pytest.raises(InvalidRequest, match="template"):
        sequence_ai.models(kind="policy")
    with pytest.raises(InvalidRequest, match="templates"):
        sequence_ai.models(kind="template", endpoint="chat")


def test_unknown_counts_of_the_account_are_none(platform):
    """account() needs a key, and a count that the platform could not read is None."""
    with pytest.raises(AuthError):
        sequence_ai.account()
    platform.documents["/v1/account"]["gpus"] = {"limit": 8, "in_use": {"serving": 2}}
    told = sequence_ai.account(api_key=platform.key)
    assert told["gpus"] == {
        "limit": 8,
        "available": None,
        "waiting_evals": [],
        "in_use": {"serving": 2, "eval": None, "total": None},
    }
    assert told["balance"]["currency"] == "usd"


def test_prices_need_no_key(platform):
    """gpus() is the public price list."""
    assert sequence_ai.gpus()["cpu"] == {"usd_per_core_hour": 0}
