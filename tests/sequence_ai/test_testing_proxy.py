"""The fault proxy, fault by fault, in front of a server that echoes; and the detour in front of a served platform."""

import socket
import threading
import time
import warnings

import pytest

import sequence_ai
from sequence_ai.testing import Detour, FakePlatform, FaultProxy

pytestmark = pytest.mark.e2e

LIMIT_S = 10
SOON_S = 0.3  # long enough for bytes of this machine to arrive, where the test holds that none do


class Echo:
    """Sends back what it gets, and keeps it."""

    def __init__(self):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self.heard = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
        except OSError:
            return

    def _answer(self, connection):
        with connection:
            try:
                while part := connection.recv(1 << 16):
                    self.heard += part
                    connection.sendall(part)
            except OSError:
                return

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def full():
    """A server with no room in its queue: a connection to it stays half made."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S):
            yield f"tcp://127.0.0.1:{port}"


@pytest.fixture
def proxy():
    with FaultProxy() as made:
        yield made


@pytest.fixture
def line(proxy, echo):
    """A connection through the proxy that has carried something already."""
    with dialled(proxy.door(echo.url)) as connection:
        assert said(connection, b"hello") == b"hello"
        yield connection


def dialled(url):
    connection = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=LIMIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def said(connection, content):
    """Send, and read as much back."""
    connection.sendall(content)
    return read(connection, len(content))


def read(connection, count):
    got = b""
    while len(got) < count and (part := connection.recv(count - len(got))):
        got += part
    return got


def silent(connection):
    connection.settimeout(SOON_S)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(LIMIT_S)
    return True


def test_bytes_pass_through_untouched(line):
    """What is sent arrives, however much it is, in order."""
    content = bytes(range(256)) * 20_000
    sender = threading.Thread(target=line.sendall, args=(content,))
    sender.start()
    assert read(line, len(content)) == content
    sender.join()


def test_the_end_of_a_stream_passes_through(line, proxy):
    """A client that says it is done is answered to the end, then the connection is over."""
    line.sendall(b"last")
    line.shutdown(socket.SHUT_WR)
    assert read(line, 99) == b"last"
    wait_until(lambda: proxy.connections == 0)


def test_a_server_has_one_door(proxy, echo):
    """Asking again gives the same address, with the scheme and the path of the server's."""
    door = proxy.door(echo.url + "/w/1")
    assert proxy.door(echo.url + "/w/1") == door
    assert door.startswith("tcp://127.0.0.1:")
    assert door.endswith("/w/1")
    assert door != echo.url + "/w/1"


def test_no_address_is_refused(proxy):
    """A door needs a host and a port to lead to."""
    with pytest.raises(ValueError, match="is no address"):
        proxy.door("nowhere")


def test_a_delay_is_added_to_the_round_trip(line, proxy):
    """An echo takes at least the delay, and bytes stay in order under jitter."""
    proxy.delay(0.2)
    began = time.monotonic()
    assert said(line, b"late") == b"late"
    assert time.monotonic() - began >= 0.2
    proxy.delay(0.02, jitter_s=0.02)
    content = bytes(range(200))
    for number in content:
        line.sendall(bytes([number]))
    assert read(line, 200) == content


def test_a_stall_keeps_the_connection_and_loses_nothing(line, proxy, echo):
    """Nothing arrives while it lasts, everything afterwards."""
    proxy.stall()
    line.sendall(b"held")
    assert silent(line)
    assert echo.heard == b"hello"
    proxy.heal()
    assert read(line, 4) == b"held"


def test_a_cut_resets_and_refuses_until_it_heals(line, proxy, echo):
    """Open connections are reset, new ones refused; healed, the same door opens again."""
    door = proxy.door(echo.url)
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        line.recv(1)
    with pytest.raises(ConnectionRefusedError):
        dialled(door)
    proxy.heal()
    with dialled(door) as again:
        assert said(again, b"back") == b"back"


def test_a_door_made_during_a_cut_is_shut(proxy, echo):
    """A server met while the network is cut is reached once it heals."""
    proxy.cut()
    door = proxy.door(echo.url)
    with pytest.raises(ConnectionRefusedError):
        dialled(door)
    proxy.heal()
    with dialled(door) as connection:
        assert said(connection, b"in") == b"in"


def test_half_open_takes_and_never_answers(line, proxy, echo):
    """The server hears everything and the client nothing; a connection that lost bytes is reset when it heals."""
    proxy.half_open()
    line.sendall(b"gone")
    assert silent(line)
    assert echo.heard == b"hellogone"
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        line.recv(1)


def test_a_forgotten_connection_is_silent_and_new_ones_work(line, proxy, echo):
    """Nothing arrives either way over the old connection, until it is reset by healing; a new one is served."""
    proxy.forget()
    line.sendall(b"gone")
    assert silent(line)
    with dialled(proxy.door(echo.url)) as again:
        assert said(again, b"new") == b"new"
    assert echo.heard == b"hellonew"
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        line.recv(1)


@pytest.mark.parametrize("after", [0, 3])
def test_an_answer_is_cut_off_after_so_many_bytes(line, proxy, echo, after):
    """The server got it all, the client exactly that much; the next connection is whole."""
    proxy.reset_answer(after=after)
    line.sendall(b"request")
    assert read(line, after) == b"request"[:after]
    with pytest.raises(ConnectionResetError):
        line.recv(1)
    assert echo.heard == b"hellorequest"
    with dialled(proxy.door(echo.url)) as again:
        assert said(again, b"whole") == b"whole"


def test_a_request_is_cut_off_before_the_server_hears_of_it(line, proxy, echo):
    """The client's connection is reset and the server has heard nothing."""
    proxy.reset_request()
    line.sendall(b"lost")
    with pytest.raises(ConnectionResetError):
        line.recv(1)
    assert echo.heard == b"hello"


def test_a_reset_leaves_the_door_open(line, proxy, echo):
    """Open connections are reset; the next one is served."""
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        line.recv(1)
    with dialled(proxy.door(echo.url)) as again:
        assert said(again, b"more") == b"more"
    assert proxy.accepted == 2


def test_hanging_up_ends_the_stream_in_order(line, proxy):
    """The client reads the end, not an error."""
    proxy.hang_up()
    assert line.recv(1) == b""


def test_a_server_that_refuses_is_a_reset(proxy, echo):
    """With nobody behind the door, a connection through it is reset."""
    door = proxy.door("tcp://127.0.0.1:9")
    with pytest.raises(ConnectionResetError), dialled(door) as connection:
        connection.recv(1)


def test_closing_twice_does_nothing(echo):
    """Closed, its doors are gone; closing again is no error."""
    proxy = FaultProxy()
    door = proxy.door(echo.url)
    with dialled(door) as connection:
        said(connection, b"x")
        proxy.close()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        dialled(door)


def test_a_connection_that_comes_while_it_closes_is_reset(echo):
    """Taken from the port in the very round in which the proxy ends, it is closed like the others."""
    proxy = FaultProxy()
    door = proxy.door(echo.url)
    busy, go_on = threading.Event(), threading.Event()
    proxy._loop.call_soon_threadsafe(lambda: (busy.set(), go_on.wait(LIMIT_S)))
    assert busy.wait(LIMIT_S)
    with dialled(door) as connection, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        ending = threading.Thread(target=proxy.close)
        ending.start()
        wait_until(lambda: proxy._closed and proxy._loop._ready)
        go_on.set()
        ending.join(LIMIT_S)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert caught == []


def test_a_connection_whose_server_is_still_dialled_is_reset(full):
    """Its server has not answered when the proxy ends: the client's end is closed all the same."""
    proxy = FaultProxy()
    with dialled(proxy.door(full)) as connection, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        wait_until(lambda: proxy.accepted)
        proxy.close()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert caught == []


def test_a_detour_leads_acts_through_its_network():
    """Gateway and worker are reached through two networks of their own, and the connect answer may be changed."""
    platform = FakePlatform(infer=lambda body: {"outputs": body["inputs"]})
    with platform.served() as gateway, platform.served() as worker:
        platform.connect["worker_url"] = worker.url
        with (
            Detour(gateway.url, change=lambda answer: answer.update(params={"speed": 2})) as road,
            sequence_ai.connect("toy", base_url=road.url, api_key=platform.key) as policy,
        ):
            assert [policy.predict(number) for number in range(3)] == [0, 1, 2]
            assert (road.gateway.accepted, road.workers.accepted) == (1, 1)
            road.gateway.cut()
            assert policy.predict(3) == 3
            road.gateway.heal()
        assert platform.to("/act")[0].body["params"] == {"speed": 2}
        assert len(worker.peers) == 1
        assert platform.to("/v1/act/release")


def test_a_detour_passes_refusals_on():
    """What the gateway refuses arrives as it was said."""
    platform = FakePlatform()
    with (
        platform.served() as gateway,
        Detour(gateway.url) as road,
        sequence_ai.connect("toy", base_url=road.url, api_key="wrong") as policy,
        pytest.raises(sequence_ai.AuthError, match="the key is unknown"),
    ):
        policy.predict(1)


def wait_until(what):
    deadline = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)
