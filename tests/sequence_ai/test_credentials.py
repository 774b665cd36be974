"""Which address and which key are used."""

import json

import pytest

from sequence_ai import DEFAULT_BASE_URL, AuthError, InvalidRequest, SequencesError, connect
from sequence_ai._credentials import resolve


@pytest.fixture
def home(tmp_path):
    """A folder as `seq up` leaves it."""
    (tmp_path / "platform.json").write_text(json.dumps({"url": "http://127.0.0.1:8800/", "pid": 1}))
    (tmp_path / "api_key").write_text("seq_live_local\n")
    return tmp_path


def test_arguments_win_over_the_environment():
    """An address and a key given in the call are used, whatever the environment says."""
    env = {"SEQUENCES_API_KEY": "env", "SEQUENCES_BASE_URL": "http://env"}
    found = resolve("arg", "http://arg/", environ=env)
    assert (found.base_url, found.api_key) == ("http://arg", "arg")
    assert resolve(None, None, environ=env).api_key == "env"


def test_the_local_platform_answers_for_both(home):
    """With nothing said, the local platform's address and its own key are used."""
    found = resolve(None, None, environ={"SEQ_HOME": str(home)})
    assert (found.base_url, found.api_key) == ("http://127.0.0.1:8800", "seq_live_local")


@pytest.mark.parametrize(
    "given", [{"base_url": "http://elsewhere"}, {"env": {"SEQUENCES_BASE_URL": "http://elsewhere"}}]
)
def test_the_local_key_never_goes_to_another_address(home, given):
    """An address without a key is an error that says what to set: the local platform's key is not for it."""
    env = {"SEQ_HOME": str(home), **given.get("env", {})}
    with pytest.raises(AuthError, match="SEQUENCES_API_KEY"):
        resolve(None, given.get("base_url"), environ=env)


def test_a_key_alone_is_for_the_local_platform_else_for_the_hosted_one(home, tmp_path):
    """A key without an address goes to the local platform where there is one, else to the built-in address."""
    assert resolve("mine", None, environ={"SEQ_HOME": str(home)}).base_url == "http://127.0.0.1:8800"
    assert resolve("mine", None, environ={"SEQ_HOME": str(tmp_path / "none")}).base_url == DEFAULT_BASE_URL


def test_with_neither_the_error_says_what_to_do(tmp_path):
    """Without key and address there is no request, but a sentence naming `seq up` and the variables."""
    with pytest.raises(AuthError, match=r"seq up.*SEQUENCES_API_KEY") as caught:
        connect("toy")
    assert caught.value.code == "unauthenticated"
    assert resolve(None, None, key_needed=False, environ={"SEQ_HOME": str(tmp_path / "none")}).api_key is None


@pytest.mark.parametrize("address", ["mock", "mock:robot"])
def test_the_offline_address_is_refused_with_a_sentence(address):
    """There is no offline platform behind the word mock."""
    with pytest.raises(InvalidRequest, match="offline"):
        connect("toy", base_url=address, api_key="k")


def test_an_address_that_is_none_is_refused():
    """An address without http:// is refused before anything is sent."""
    with pytest.raises(InvalidRequest, match="http://"):
        connect("toy", base_url="127.0.0.1:80", api_key="k")


@pytest.mark.parametrize("text", ["", "[]", "{", "{}"])
def test_a_broken_platform_file_is_told_and_not_passed_over(tmp_path, text):
    """A platform.json that names no address is an error naming the file."""
    (tmp_path / "platform.json").write_text(text)
    with pytest.raises(SequencesError, match=r"platform\.json"):
        resolve("k", None, environ={"SEQ_HOME": str(tmp_path)})


def test_a_key_is_never_shown():
    """Neither the credentials' text nor the refusal of a malformed key holds the key."""
    assert "secret" not in repr(resolve("secret", "http://x", environ={}))
    with pytest.raises(AuthError) as caught:
        resolve("sec\nret", "http://x", environ={})
    assert "ret" not in str(caught.value)
