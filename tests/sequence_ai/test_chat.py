"""`chat`: what is sent, what comes back, whole and as a stream (sdk.md 9.1, wire.md 4.9)."""

import inspect
import json

import httpx
import pytest

import sequence_ai
from sequence_ai import InternalError, InvalidRequest, NotFound, SequencesError, Unavailable
from sequence_ai.testing import error

HELLO = [{"role": "user", "content": "hello"}]
REPLY = {
    "id": "c-1",
    "model": "accounts/s/models/brain",
    "message": {"role": "assistant", "content": "hi there"},
    "finish_reason": "stop",
    "usage": {"total_tokens": 9, "cached_tokens": 4, "reasoning_tokens": 2},
    "perf": {"total_ms": 12},
    "warnings": [],
    "cost_usd": 0.002,
}
CATALOGUE = [
    {"id": "accounts/s/models/brain", "endpoint": "chat", "architecture": "vlm", "aliases": ["thinker"]},
    {"id": "accounts/s/models/judge", "endpoint": "decide", "architecture": "lm"},
    {"id": "accounts/s/models/brain-old", "endpoint": "chat", "alias_of": "accounts/s/models/brain"},
]


@pytest.fixture(autouse=True)
def _served(platform, monkeypatch):
    monkeypatch.setenv("SEQUENCES_BASE_URL", platform.url)
    monkeypatch.setenv("SEQUENCES_API_KEY", platform.key)
    platform.documents["/v1/models"] = {"data": CATALOGUE}
    platform.documents["/v1/chat"] = REPLY


def body(platform):
    """The body of the last chat request."""
    return platform.to("/v1/chat")[-1].body


def sse(*events, done=True, before=()):
    """The bytes of a streamed answer, one event each, with the lines `before` them."""
    yield from before
    for event in events:
        yield f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
    if done:
        yield b"data: [DONE]\n\n"


def said(text=None, reasoning=None):
    """A piece of a streamed answer."""
    return {"object": "chat.chunk", "delta": {"content": text, "reasoning": reasoning}}


ENDED = {"object": "chat.response", **REPLY}


def answer_streamed(platform, content):
    """Have the next chat answered with these bytes."""
    platform.answer_next("/v1/chat", httpx.Response(200, content=content))


def test_a_reply_has_no_wrapper(platform):
    """chat() gives the reply itself: text, finish reason, tokens, cost."""
    reply = sequence_ai.chat("brain", HELLO)
    assert (reply.content, reply.finish_reason, reply.cost_usd, reply.tool_calls) == ("hi there", "stop", 0.002, None)
    assert (reply.cached_tokens, reply.reasoning_tokens, reply.reasoning, reply.logprobs) == (4, 2, None, None)
    assert reply.perf == {"total_ms": 12}


def test_tool_calls_and_reasoning_are_told(platform):
    """A reply that calls tools has no text and lists the calls; thoughts and their blocks come as they were sent."""
    call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    blocks = [{"type": "reasoning.text", "text": "hm"}]
    message = {"content": None, "tool_calls": [call], "reasoning": "hm", "reasoning_details": blocks}
    platform.documents["/v1/chat"] = {**REPLY, "message": message, "finish_reason": "tool_calls", "usage": None}
    reply = sequence_ai.chat("brain", HELLO)
    assert (reply.content, reply.tool_calls, reply.finish_reason) == (None, [call], "tool_calls")
    assert (reply.reasoning, reply.reasoning_details, reply.cached_tokens) == ("hm", blocks, 0)


def test_unset_parameters_are_not_sent(platform):
    """A bare call sends model, messages and max_tokens, and nothing else."""
    sequence_ai.chat("brain", HELLO)
    assert body(platform) == {"model": "accounts/s/models/brain", "messages": HELLO, "max_tokens": 1024}


def test_every_parameter_is_passed_under_its_own_name(platform):
    """Each of the model's parameters travels as given, a falsy value too; cache and stream only when they say much."""
    own = {"model", "messages", "cache", "stream", "api_key", "base_url", "timeout_s"}
    names = [name for name in inspect.signature(sequence_ai.chat).parameters if name not in own]
    assert len(names) == 23
    sequence_ai.chat("brain", HELLO, cache=False, **dict.fromkeys(names, 0))
    assert body(platform) == {
        "model": "accounts/s/models/brain",
        "messages": HELLO,
        "cache": False,
        **dict.fromkeys(names, 0),
    }


@pytest.mark.parametrize("messages", [[], HELLO * 257, "hello", ["hello"], None])
def test_messages_that_cannot_be_right_are_refused_here(platform, messages):
    """No message, over 256 of them, or something that is no list of messages: nothing is sent."""
    with pytest.raises(InvalidRequest, match="messages"):
        sequence_ai.chat("brain", messages)
    assert platform.sent == []


def test_256_messages_are_sent(platform):
    """The limit itself is allowed."""
    sequence_ai.chat("brain", HELLO * 256)
    assert len(body(platform)["messages"]) == 256


def test_a_model_of_another_endpoint_is_refused_here(platform):
    """A decide model is not asked to chat; the refusal names the models that do."""
    with pytest.raises(InvalidRequest, match=r"judge.*decide.*brain"):
        sequence_ai.chat("judge", HELLO)
    assert platform.to("/v1/chat") == []


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("brain", "accounts/s/models/brain"),
        ("accounts/s/models/brain", "accounts/s/models/brain"),
        ("thinker", "accounts/s/models/thinker"),
        ("brain-old", "accounts/s/models/brain-old"),
        ("nobody", "nobody"),
    ],
)
def test_a_model_is_named_by_short_id_full_id_or_alias(platform, name, sent):
    """The full id is sent; an alias as the full id it once was; a name that is not listed as it is."""
    sequence_ai.chat(name, HELLO)
    assert body(platform)["model"] == sent


def test_a_listed_model_can_be_handed_over(platform):
    """What models() returned is taken in place of its name; what is no name is refused."""
    sequence_ai.chat(sequence_ai.models(endpoint="chat")[0], HELLO)
    assert body(platform)["model"] == "accounts/s/models/brain"
    with pytest.raises(InvalidRequest, match="name of a model"):
        sequence_ai.chat(" ", HELLO)


def test_the_list_of_models_is_read_once_for_a_key_and_an_address(platform):
    """Two calls ask for the list once; another key asks again."""
    sequence_ai.chat("brain", HELLO)
    sequence_ai.chat("thinker", HELLO)
    assert len(platform.to("/v1/models")) == 1
    with pytest.raises(sequence_ai.AuthError):
        sequence_ai.chat("brain", HELLO, api_key="seq_test_other")
    assert len(platform.to("/v1/models")) == 2


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", InvalidRequest),
        (402, "insufficient_credit", sequence_ai.OutOfCredit),
        (403, "forbidden", sequence_ai.PermissionDenied),
        (404, "not_found", NotFound),
        (410, "gone", sequence_ai.Gone),
        (502, "upstream_error", Unavailable),
        (503, "unavailable", Unavailable),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_raised_from_chat_and_not_sent_again(platform, status, code, kind, stream):
    """Whatever refuses does so in its own words, from chat() itself even when streaming, after one request."""
    platform.answer_next("/v1/chat", error(status, code, "the provider says no"))
    with pytest.raises(kind, match="the provider says no") as refused:
        sequence_ai.chat("brain", HELLO, stream=stream)
    assert refused.value.code == code
    assert len(platform.to("/v1/chat")) == 1


def test_a_slow_server_is_given_up_after_timeout_s(platform):
    """No answer within timeout_s is Unavailable with the code timeout, and names the limit; one request was made."""
    platform.answer_next("/v1/chat", httpx.ReadTimeout("late"))
    with pytest.raises(Unavailable, match=r"2\.5 s") as late:
        sequence_ai.chat("brain", HELLO, timeout_s=2.5)
    assert late.value.code == "timeout"
    assert len(platform.to("/v1/chat")) == 1


@pytest.mark.parametrize("given", [0, -1.0, float("nan")])
def test_a_timeout_is_above_zero(platform, given):
    """A timeout that no request can meet is refused, and nothing is sent."""
    with pytest.raises(InvalidRequest, match="timeout_s"):
        sequence_ai.chat("brain", HELLO, timeout_s=given)
    assert platform.sent == []


def test_a_reply_without_a_message_is_the_platforms_fault(platform):
    """A malformed reply is InternalError, not a KeyError."""
    platform.documents["/v1/chat"] = {"id": "c-1"}
    with pytest.raises(InternalError, match="malformed"):
        sequence_ai.chat("brain", HELLO)


def test_a_key_is_needed(platform, monkeypatch):
    """Without a key nothing is sent, not even for the list of models."""
    monkeypatch.delenv("SEQUENCES_API_KEY")
    with pytest.raises(sequence_ai.AuthError):
        sequence_ai.chat("brain", HELLO)
    assert platform.sent == []


def test_a_stream_gives_its_pieces_then_the_result(platform):
    """Pieces come in order; text and thoughts add up; the result is the plain reply; `stream` was asked for."""
    answer_streamed(platform, sse(said(reasoning="hm"), said("hi "), said("there"), ENDED))
    with sequence_ai.chat("brain", HELLO, stream=True) as stream:
        with pytest.raises(SequencesError, match="end"):
            _ = stream.result
        assert next(stream) == "hi "
        assert (stream.text, stream.reasoning) == ("hi ", "hm")
        assert list(stream) == ["there"]
    assert (stream.text, stream.result.content, stream.result.cost_usd) == ("hi there", "hi there", 0.002)
    assert body(platform)["stream"] is True


def test_lines_that_are_no_event_are_passed_over(platform):
    """Comments, blank lines and other fields are skipped, and only a newline ends a line."""
    text = "a\u2028b\x85c\x0bd"
    before = (b": keep-alive\n\n", b"event: chunk\r\n", b"data:no space\n")
    answer_streamed(platform, sse(said(text), ENDED, before=before))
    assert list(sequence_ai.chat("brain", HELLO, stream=True)) == [text]


def test_an_event_may_arrive_in_parts(platform):
    """Where the network cuts the bytes, in the middle of a character even, does not matter."""
    whole = b"".join(sse(said("grün"), ENDED))
    answer_streamed(platform, (whole[i : i + 1] for i in range(len(whole))))
    assert list(sequence_ai.chat("brain", HELLO, stream=True)) == ["grün"]


def test_a_connection_that_breaks_mid_stream_raises_while_iterating(platform):
    """What came before the break was handed out; the break is Unavailable; there is no result; nothing is resent."""

    def breaking():
        yield from sse(said("hi "), done=False)
        raise httpx.ReadError("reset by peer")

    answer_streamed(platform, breaking())
    stream = sequence_ai.chat("brain", HELLO, stream=True)
    assert next(stream) == "hi "
    with pytest.raises(Unavailable, match="reset by peer"):
        next(stream)
    assert (stream.text, list(stream)) == ("hi ", [])
    with pytest.raises(SequencesError, match="end"):
        _ = stream.result
    assert len(platform.to("/v1/chat")) == 1


@pytest.mark.parametrize("done", [True, False])
def test_a_stream_without_its_reply_broke_off(platform, done):
    """An answer that ends before the whole reply came is Unavailable, also when it says that it is done."""
    answer_streamed(platform, sse(said("hi "), done=done))
    with pytest.raises(Unavailable, match="broke off"):
        list(sequence_ai.chat("brain", HELLO, stream=True))


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, InvalidRequest, "invalid_request"),
        (502, Unavailable, "upstream_error"),
        (503, Unavailable, "unavailable"),
        (None, Unavailable, "unavailable"),
    ],
)
def test_a_failure_told_mid_stream_raises_while_iterating(platform, status, kind, code):
    """A 400 is what the provider rejected, anything else that it failed; both in its own words."""
    told = {"object": "error", "error": {"status": status, "message": "too long"}}
    answer_streamed(platform, sse(said("hi "), told))
    stream = sequence_ai.chat("brain", HELLO, stream=True)
    assert next(stream) == "hi "
    with pytest.raises(kind, match="too long") as failed:
        next(stream)
    assert failed.value.code == code


def test_a_stream_that_falls_silent_is_given_up_after_timeout_s(platform):
    """A server that stalls between two pieces ends the stream with the code timeout."""

    def stalling():
        yield from sse(said("hi "), done=False)
        raise httpx.ReadTimeout("silence")

    answer_streamed(platform, stalling())
    stream = sequence_ai.chat("brain", HELLO, stream=True, timeout_s=1.5)
    assert next(stream) == "hi "
    with pytest.raises(Unavailable, match=r"1\.5 s") as late:
        next(stream)
    assert late.value.code == "timeout"


def test_a_closed_stream_ends_and_lets_go_of_the_answer(platform):
    """close() stops reading at once, closes the connection's answer, may be called again, and leaves no result."""
    left = []

    def endless():
        try:
            while True:
                yield from sse(said("hi "), done=False)
        finally:
            left.append("closed")

    answer = httpx.Response(200, stream=_Closing(endless()))
    platform.answer_next("/v1/chat", answer)
    stream = sequence_ai.chat("brain", HELLO, stream=True)
    assert next(stream) == "hi "
    stream.close()
    stream.close()
    assert (list(stream), left, answer.is_closed) == ([], ["closed"], True)
    with pytest.raises(SequencesError, match="end"):
        _ = stream.result


def test_an_event_that_is_not_json_is_the_platforms_fault(platform):
    """A malformed event is InternalError."""
    answer_streamed(platform, iter([b"data: {\n\n"]))
    with pytest.raises(InternalError, match="malformed"):
        list(sequence_ai.chat("brain", HELLO, stream=True))


def test_no_secret_is_shown(platform):
    """Neither errors nor the text form of a stream hold the key."""
    answer_streamed(platform, sse(said("hi "), ENDED))
    stream = sequence_ai.chat("brain", HELLO, stream=True)
    list(stream)
    platform.answer_next("/v1/chat", httpx.ConnectError("refused"))
    with pytest.raises(Unavailable) as lost:
        sequence_ai.chat("brain", HELLO)
    shown = f"{stream!r} {lost.value!r} {lost.value} {vars(lost.value)}"
    assert platform.key not in shown
    assert repr(stream) == "ChatStream(3 characters, ended)"


class _Closing(httpx.SyncByteStream):
    """A streamed body that ends its generator when the response is closed, as a connection does."""

    def __init__(self, pieces):
        self._pieces = pieces

    def __iter__(self):
        return self._pieces

    def close(self):
        self._pieces.close()
