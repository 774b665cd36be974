"""One link: what a request carries, how its answer is read, and what happens to an answer that is somebody else's."""

import errno
import json
import os
import select
import socket
import struct
import sys

import httpx
import msgpack
import pytest

from sequence_ai import InvalidRequest, SequencesError, Unavailable, _codec, _transport, _wire
from sequence_ai._errors import Unreachable
from sequence_ai._transport import Edge


class Server(httpx.BaseTransport):
    """A transport that answers with what the test gives it, and knows which answers were read to their end."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.requests = []
        self.unread = []
        self.closed = False

    def handle_request(self, request):
        self.requests.append((request, request.read()))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        status, headers, parts = reply
        stream = Parts(parts)
        self.unread.append(stream)
        return httpx.Response(status, headers=headers, stream=stream)

    def close(self):
        self.closed = True


class Parts(httpx.SyncByteStream):
    def __init__(self, parts):
        self.left = list(parts)
        self.closed = False

    def __iter__(self):
        while self.left:
            part = self.left.pop(0)
            if isinstance(part, Exception):
                raise part
            yield part

    def close(self):
        self.closed = True


def answer(value, *, echo=None, encoding="json", status=200):
    headers = {"Content-Type": _codec.CONTENT_TYPES[encoding]}
    if echo is not None:
        headers["X-Seq-Request-Id"] = echo
    return status, headers, [_wire.dumps(value, encoding)]


def link(server, encoding="json", url="https://worker.test:8443/w/1"):
    return Edge(transport=lambda _: server).open(url, "secret", "ab" * 32, encoding)


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_a_request_is_written_and_its_answer_read_in_the_links_encoding(encoding):
    """Body, content type, secret and id are sent; the answer is read by its own content type."""
    server = Server(answer({"outputs": [1, 2.5]}, echo="r-1", encoding=encoding), answer({"outputs": 1}))
    with_link = link(server, encoding)
    told = with_link.call("POST", "/act", body={"inputs": 7}, timeout_s=3, request_id="r-1")
    assert told.body == {"outputs": [1, 2.5]}
    assert with_link.call("POST", "/act", body={"inputs": 7}, timeout_s=3).body == {"outputs": 1}
    request, content = server.requests[0]
    assert (request.method, str(request.url)) == ("POST", "https://worker.test:8443/w/1/act")
    assert content == (b'{"inputs":7}' if encoding == "json" else msgpack.packb({"inputs": 7}))
    assert request.headers["Content-Type"] == _codec.CONTENT_TYPES[encoding]
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["X-Seq-Request-Id"] == "r-1"
    assert request.headers["User-Agent"].startswith("sequence-ai-python/")
    assert request.headers["Content-Length"] == str(len(content))
    assert request.extensions["timeout"]["read"] == 3


def test_an_answer_to_another_request_is_not_taken():
    """A late or repeated answer is an Unreachable that may be replayed, and is left unread so its connection ends."""
    server = Server(answer({"outputs": "somebody else's"}, echo="r-2"))
    with pytest.raises(Unreachable, match="r-2 where r-1") as caught:
        link(server).call("POST", "/act", body={}, timeout_s=3, request_id="r-1")
    assert (caught.value.dropped, caught.value.code) == (True, "unavailable")
    assert server.unread[0].left
    assert server.unread[0].closed


def test_a_refusal_of_another_request_is_not_taken_either():
    """An error that another act earned is not raised for this one."""
    server = Server(answer({"code": "policy_error", "detail": "x", "retryable": False}, echo="r-2", status=500))
    with pytest.raises(Unreachable):
        link(server).call("POST", "/act", body={}, timeout_s=3, request_id="r-1")


def test_an_answer_without_an_echo_is_taken():
    """A worker need not echo the id."""
    server = Server(answer({"outputs": 1}))
    assert link(server).call("POST", "/act", body={}, timeout_s=3, request_id="r-1").body == {"outputs": 1}


def test_an_error_is_read_whatever_the_encoding():
    """A JSON error on a MessagePack link is its typed error."""
    refused = {"code": "busy", "detail": "in use", "retryable": True, "retry_after_s": 0.5}
    with pytest.raises(Unavailable, match="in use") as caught:
        link(Server(answer(refused, status=429)), "msgpack").call("POST", "/act", body={}, timeout_s=3)
    assert (caught.value.code, caught.value.retry_after_s) == ("busy", 0.5)


@pytest.mark.parametrize(
    ("broken", "code", "dropped"),
    [
        (httpx.ReadTimeout("late"), "timeout", False),
        (httpx.ConnectError("refused"), "unavailable", False),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), "unavailable", True),
        (httpx.ReadError(""), "unavailable", True),
    ],
)
@pytest.mark.parametrize("where", ["head", "body"])
def test_what_breaks_is_told_and_whether_it_may_be_sent_again(broken, code, dropped, where):
    """A broken connection is Unreachable wherever it broke, `dropped` where the server had taken it."""
    reply = broken if where == "head" else (200, {}, [b'{"outp', broken])
    with pytest.raises(Unreachable) as caught:
        link(Server(reply)).call("POST", "/act", body={}, timeout_s=3)
    assert (caught.value.code, caught.value.dropped) == (code, dropped)


def test_what_may_be_sent_twice_is_sent_again_once():
    """A kept connection that the server had closed is replaced; a second failure is raised."""
    server = Server(httpx.RemoteProtocolError("gone"), answer({"ok": 1}))
    assert link(server).resend_if_dropped("GET", "/v1/x", timeout_s=3).body == {"ok": 1}
    with pytest.raises(Unreachable):
        link(Server(httpx.ReadError("a"), httpx.ReadError("b"))).resend_if_dropped("GET", "/v1/x", timeout_s=3)


def test_bytes_that_are_no_answer_are_not_shown():
    """A success that is no object is an InternalError that shows text, and neither a web page nor raw bytes."""
    for kind, content, shown in (
        ("text/plain", b"hello", "hello"),
        ("text/html", b"<html>", "nothing"),
        ("application/msgpack", b"\xc1\xc1", "nothing"),
    ):
        with pytest.raises(SequencesError, match=shown):
            link(Server((200, {"Content-Type": kind}, [content]))).call("GET", "/x", timeout_s=3)


def test_a_query_and_headers_of_one_call_are_its_own():
    """What one call adds is not kept for the next."""
    server = Server(answer({}), answer({}))
    one = link(server)
    one.call("GET", "/v1/x", query={"model": "a b"}, headers={"X-One": "1"}, timeout_s=3)
    one.call("GET", "/v1/x", timeout_s=3)
    assert [str(request.url).rpartition("/")[2] for request, _ in server.requests] == ["x?model=a+b", "x"]
    assert ["X-One" in request.headers for request, _ in server.requests] == [True, False]


def test_a_closed_link_sends_nothing():
    """Closing ends the transport; later calls say what to do."""
    server = Server()
    one = link(server)
    one.close()
    assert server.closed
    with pytest.raises(SequencesError, match="connect again"):
        one.call("GET", "/x", timeout_s=3)


def test_an_address_that_is_none_is_refused():
    """What cannot be an address is said before anything is sent."""
    with pytest.raises(InvalidRequest, match="not an address"):
        Edge().open("https://[::1", None)


def test_lines_are_read_as_they_arrive():
    """A streamed answer gives its lines one by one, and its connection is closed at the end of the block."""
    server = Server((200, {"Content-Type": "text/event-stream"}, [b"data: 1\n", b"da", b"ta: 2\n\n"]))
    with link(server).stream("POST", "/v1/chat", body={}, timeout_s=3) as lines:
        assert next(lines) == "data: 1\n"
        assert list(lines) == ["data: 2\n", "\n"]
    assert server.unread[0].closed


def test_a_refused_stream_raises_its_error_before_the_first_line():
    """A refusal is raised from the call, a connection that breaks where it breaks."""
    refused = answer({"code": "invalid_request", "detail": "no", "retryable": False}, status=400)
    with pytest.raises(InvalidRequest), link(Server(refused)).stream("POST", "/x", timeout_s=3):
        pass
    breaks = Server((200, {}, [b"data: 1\n", httpx.ReadError("gone")]))
    with link(breaks).stream("POST", "/x", timeout_s=3) as lines:
        assert next(lines) == "data: 1\n"
        with pytest.raises(Unreachable):
            next(lines)


def test_messagepack_is_chosen_where_both_ends_have_it(monkeypatch):
    """The worker's offer and the extra `fast` decide; without either it is JSON."""
    offered = _wire.read_connect(
        {"worker_url": "u", "cert_fingerprint": "f", "direct_secret": "s", "encodings": ["json", "msgpack"]}
    )
    assert _wire.best_encoding(offered) == "msgpack"
    monkeypatch.setattr(_wire, "has_msgpack", lambda: False)
    assert _wire.best_encoding(offered) == "json"
    silent = _wire.read_connect({"worker_url": "u", "cert_fingerprint": "f", "direct_secret": "s"})
    assert (silent.encodings, _wire.best_encoding(silent)) == (("json",), "json")


def test_json_images_are_put_in_whole_and_in_order():
    """Frames spliced into JSON are where they belong, even where a text of the caller's own looks like their mark."""
    blobs = [_codec.Blob(b"\xff\xd8\xff1"), _codec.Blob(b"\x89PNG2")]
    for text in ("plain", _codec._MARK, f'"{_codec._MARK}"'):
        body = json.loads(_codec.dumps({"t": text, "images": [{"data": blob} for blob in blobs]}))
        assert body == {"t": text, "images": [{"data": "/9j/MQ=="}, {"data": "iVBORzI="}]}


def test_a_worker_is_reached_without_the_environments_proxies():
    """A worker's transport ignores the environment, bounds no connections in use and keeps four idle ones."""
    transport = _transport.transport_to("ab" * 32)
    pool = transport._pool
    assert (pool._max_connections, pool._max_keepalive_connections) == (sys.maxsize, 4)
    assert pool._keepalive_expiry == 300


class Deserted(socket.socket):
    """A connected socket whose peer resets it in the middle of the making of a TLS socket from it."""

    @classmethod
    def dialled(cls, door):
        made = cls()
        made.connect(door.getsockname())
        made.peer, _ = door.accept()
        return made

    def detach(self):
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.close()
        select.select([self], [], [], 10)
        return super().detach()


def test_a_peer_that_goes_before_the_handshake_leaves_no_socket_open():
    """The half-made connection is closed when the error is raised, not whenever memory is next collected."""
    context = _transport._PinnedContext.to("ab" * 32)
    with socket.create_server(("127.0.0.1", 0)) as door, Deserted.dialled(door) as lost:
        descriptor = lost.fileno()
        with pytest.raises(ConnectionResetError) as raised:
            context.wrap_socket(lost)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
        assert raised.value.errno == errno.ECONNRESET
