"""Where weights come from is checked as it is written; secrets and volumes are names alone."""

import inspect

import pytest

import seq
from seq.weights import parse_weights


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        (seq.Weights.template("pi05-droid"), "template://pi05-droid"),
        (seq.Weights.template("pi05-droid", version=2), "template://pi05-droid@v2"),
        ("template://pi05-droid@v1", "template://pi05-droid@v1"),
        ("hf://org/model", "hf://org/model"),
        ("hf://org/model@abc123", "hf://org/model@abc123"),
        (seq.Volume.from_name("pi05-ft"), "vol://pi05-ft"),
        ("vol://pi05-ft@v3", "vol://pi05-ft@v3"),
    ],
)
def test_each_source_has_one_uri(given, uri):
    """Template, hub repository and volume."""
    assert parse_weights(given) == {"": uri}


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "org/model",
        "hf:/org/model",
        "hf://",
        "hf://model",
        "hf://org/model@",
        "hf://org/mo del",
        "hf://org/../model",
        "http://host/file",
        "ftp://host/file",
        "vol://",
        "vol://a b",
        "vol://a@3",
        "template://Pi05",
        "template://pi05@3",
        7,
    ],
)
def test_a_malformed_source_is_refused(wrong):
    """Unknown schemes, traversal, missing parts and other types."""
    with pytest.raises(seq.PolicyDefinitionError, match="weights"):
        parse_weights(wrong)


@pytest.mark.parametrize("uri", ["gs://bucket/w", "s3://bucket/w", "https://host/w"])
def test_buckets_and_urls_still_deploy_with_a_warning(uri):
    """They are deprecated, and accepted."""
    with pytest.warns(FutureWarning, match="deprecated"):
        assert parse_weights(uri) == {"": uri}


def test_named_parts_keep_their_order():
    """A dict of parts is up to eight sources."""
    parts = {"vision": "hf://org/vision", "action": seq.Volume("head")}

    assert list(parse_weights(parts).items()) == [("vision", "hf://org/vision"), ("action", "vol://head")]


@pytest.mark.parametrize("name", ["", "a b", "..", "a..b", "x" * 65, None])
def test_names_that_no_secret_or_volume_has_are_refused(name):
    """The rule is checked before anything is sent."""
    with pytest.raises(seq.PolicyDefinitionError):
        seq.Secret.from_name(name)
    with pytest.raises(seq.PolicyDefinitionError):
        seq.Volume.from_name(name)


def test_a_secret_has_no_way_to_carry_a_value():
    """The only argument is the name."""
    assert list(inspect.signature(seq.Secret.from_name).parameters) == ["name"]
    assert seq.Secret.from_name("hf").wire().wire() == {"name": "hf"}
