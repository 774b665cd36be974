"""`Conversation`: what enters the history, and when (sdk.md 9.2)."""

import json

import httpx
import pytest

import sequence_ai
from sequence_ai import Conversation, InvalidRequest, Unavailable
from sequence_ai.testing import error

CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def reply(text, **message):
    """A reply that cost a cent and took three tokens from the cache."""
    return {
        "id": "c",
        "model": "brain",
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
        "usage": {"cached_tokens": 3},
        "cost_usd": 0.01,
    }


def streamed(text, *, ended=True):
    """A streamed answer of one piece."""
    events = [{"object": "chat.chunk", "delta": {"content": text}}]
    events += [{"object": "chat.response", **reply(text)}] if ended else []
    return httpx.Response(200, content=iter([f"data: {json.dumps(event)}\n\n".encode() for event in events]))


@pytest.fixture(autouse=True)
def _served(platform, monkeypatch):
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    monkeypatch.setenv("SEQUENCES_API_KEY", platform.key)
    platform.documents["/v1/chat"] = reply("yes")


def sent(platform):
    """The messages of the last request."""
    return platform.to("/v1/chat")[-1].body["messages"]


def test_turns_are_kept_and_sent_along(platform):
    """The second turn carries the system message and the whole first turn; cost and cached tokens add up."""
    talk = Conversation("brain", system="be brief", temperature=0.0)
    talk.send("one")
    assert talk.send("two").content == "yes"
    assert sent(platform) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "two"},
    ]
    assert (talk.turns, talk.cost_usd, talk.cached_tokens) == (2, 0.02, 6)
    assert len(talk.messages) == 5
    assert platform.to("/v1/chat")[-1].body["temperature"] == 0.0


def test_a_turn_may_replace_the_settings(platform):
    """Overrides hold for their own turn."""
    talk = Conversation("brain", max_tokens=50)
    talk.send("one", max_tokens=5, seed=7)
    talk.send("two")
    first, second = (request.body for request in platform.to("/v1/chat"))
    assert (first["max_tokens"], first["seed"]) == (5, 7)
    assert second["max_tokens"] == 50
    assert "seed" not in second


@pytest.mark.parametrize("fixed", [{"messages": []}, {"model": "other"}, {"stream": True}])
def test_what_the_conversation_fills_in_cannot_be_overridden(platform, fixed):
    """The model, the messages and streaming are not a turn's to choose."""
    with pytest.raises(InvalidRequest, match=next(iter(fixed))):
        Conversation("brain").send("one", **fixed)
    assert platform.to("/v1/chat") == []


def test_tool_calls_reasoning_and_results_enter_the_history(platform):
    """A tool's result follows the call and the thoughts that led to it, as text or JSON; send() goes on from there."""
    blocks = [{"type": "reasoning.encrypted", "data": "x"}]
    platform.documents["/v1/chat"] = reply(None, tool_calls=[CALL], reasoning="hm", reasoning_details=blocks)
    talk = Conversation("brain", tools=[{"type": "function", "function": {"name": "look"}}])
    assert talk.send("look").tool_calls == [CALL]
    talk.tool_result("t1", {"cups": 2})
    platform.documents["/v1/chat"] = reply("two cups")
    assert talk.send().content == "two cups"
    assert sent(platform)[1:] == [
        {"role": "assistant", "tool_calls": [CALL], "reasoning": "hm", "reasoning_details": blocks},
        {"role": "tool", "tool_call_id": "t1", "content": '{"cups": 2}'},
    ]
    talk.tool_result("t2", "plain")
    assert talk.messages[-1] == {"role": "tool", "tool_call_id": "t2", "content": "plain"}


def test_a_tools_result_that_is_not_json_is_refused(platform):
    """What JSON has no form for is refused, and does not enter the history."""
    talk = Conversation("brain")
    with pytest.raises(InvalidRequest, match="JSON"):
        talk.tool_result("t1", object())
    with pytest.raises(InvalidRequest, match="JSON"):
        talk.tool_result("t1", float("nan"))
    assert talk.messages == []


def test_nothing_to_answer_is_refused_here(platform):
    """send() without content needs a tool's result to go on from."""
    talk = Conversation("brain", system="be brief")
    with pytest.raises(InvalidRequest, match="nothing to answer"):
        talk.send()
    talk.send("one")
    with pytest.raises(InvalidRequest, match="nothing to answer"):
        talk.send()
    assert len(platform.to("/v1/chat")) == 1


def test_a_failed_turn_leaves_nothing_behind(platform):
    """After a refusal the history is as before, so that the same words can be said again."""
    talk = Conversation("brain")
    platform.answer_next("/v1/chat", error(503, "unavailable"))
    with pytest.raises(Unavailable):
        talk.send("one")
    assert (talk.messages, talk.turns) == ([], 0)
    talk.send("one")
    assert sent(platform) == [{"role": "user", "content": "one"}]


def test_a_streamed_turn_enters_the_history_at_its_end(platform):
    """While it is read, the history is as before; then it holds both sides, and the cost."""
    talk = Conversation("brain")
    platform.answer_next("/v1/chat", streamed("yes"))
    with talk.stream("one") as stream:
        assert next(stream) == "yes"
        assert talk.messages == []
        assert list(stream) == []
    assert [message["role"] for message in talk.messages] == ["user", "assistant"]
    assert (talk.turns, talk.cost_usd) == (1, 0.01)


def test_an_abandoned_stream_appends_nothing(platform):
    """A stream closed before its end, or broken off, leaves the history as it was."""
    talk = Conversation("brain")
    platform.answer_next("/v1/chat", streamed("yes"), streamed("ye", ended=False))
    with talk.stream("one") as stream:
        next(stream)
    broken = talk.stream("one")
    with pytest.raises(Unavailable):
        list(broken)
    assert (talk.messages, talk.turns, talk.cost_usd) == ([], 0, 0)


def test_a_stream_that_was_overtaken_appends_nothing(platform):
    """When another turn came in between, a stream finished later does not enter the history out of order."""
    talk = Conversation("brain")
    platform.answer_next("/v1/chat", streamed("late"))
    stream = talk.stream("one")
    talk.send("two")
    assert list(stream) == ["late"]
    assert [message["content"] for message in talk.messages] == ["two", "yes"]


def test_the_history_is_a_copy_and_holds_no_key(platform):
    """Changing what `.messages` gave changes nothing; the text form shows the model, never the key."""
    talk = Conversation("brain", api_key=platform.key)
    talk.send("one")
    talk.messages.clear()
    talk.messages[0]["content"] = "changed"
    assert talk.messages[0]["content"] == "one"
    assert repr(talk) == "Conversation('brain', 1 turns)"


def test_a_conversation_that_is_too_long_is_refused_here(platform):
    """Past 256 messages chat's own limit speaks, and nothing is sent."""
    talk = Conversation("brain")
    for number in range(256):
        talk.tool_result(str(number), "x")
    with pytest.raises(InvalidRequest, match="256"):
        talk.send("one")
    assert platform.to("/v1/chat") == []


def test_blocks_are_sent_as_they_are(platform):
    """A turn may be text and pictures."""
    blocks = [sequence_ai.cached("the rules"), sequence_ai.image(b"\x89PNG\r\n\x1a\n")]
    Conversation("brain").send(blocks)
    assert sent(platform) == [{"role": "user", "content": blocks}]
