"""The fault proxy carries bytes faithfully, and each of its faults is what it says."""

import gc
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from tests.cluster.proxy import FaultProxy

SECONDS = 10.0
QUIET = 0.2  # long enough for bytes to arrive on this machine if they are coming


class Echo:
    """A server that sends back what it gets, and ends when its client does."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        # A thread in accept(2) is woken by shutdown, not by close.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=[connection]))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except ConnectionError:
                return


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[FaultProxy]:
    with FaultProxy(echo.port) as running:
        yield running


def connect(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=SECONDS)


def ask(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return receive(client, len(text))


def receive(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = client.recv(size - len(found))
        assert part, f"ended after {len(found)} of {size} bytes"
        found += part
    return found


def is_silent(client: socket.socket) -> bool:
    client.settimeout(QUIET)
    try:
        return client.recv(1) is None
    except TimeoutError:
        return True
    finally:
        client.settimeout(SECONDS)


def test_bytes_arrive_whole_and_in_order(proxy: FaultProxy) -> None:
    """More than any buffer on the way holds, so that holding back the sender is tried too."""
    sent = b"".join(number.to_bytes(4, "big") for number in range(1_000_000))
    with connect(proxy) as client:
        sender = threading.Thread(target=client.sendall, args=[sent])
        sender.start()
        assert receive(client, len(sent)) == sent
        sender.join()
    assert proxy.statistics().forwarded == 2 * len(sent)


def test_half_close_is_forwarded_after_last_byte(proxy: FaultProxy) -> None:
    """Half-closing is how HTTP/1.0 and kubectl exec say: no more input."""
    with connect(proxy) as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert receive(client, 10) == b"last words"
        assert client.recv(1) == b""


def test_delay_is_added_in_each_direction(proxy: FaultProxy) -> None:
    """Many chunks are late together, not one after the other."""
    proxy.delay(0.1)
    with connect(proxy) as client:
        began = time.monotonic()
        for _ in range(20):
            client.sendall(b"x" * 1000)
        assert receive(client, 20_000) == b"x" * 20_000
        assert time.monotonic() - began >= 0.2


def test_cut_resets_present_and_new_connections_until_healed(proxy: FaultProxy) -> None:
    """A client sees a reset, not an orderly end, and can connect again after the healing."""
    with connect(proxy) as client:
        assert ask(client, b"before") == b"before"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionResetError), connect(proxy) as client:
        client.recv(1)
    proxy.heal()
    with connect(proxy) as client:
        assert ask(client, b"after") == b"after"


def test_half_open_connections_stay_silent_forever(proxy: FaultProxy) -> None:
    """Neither side learns of it; new connections work at once."""
    with connect(proxy) as old:
        assert ask(old, b"before") == b"before"
        proxy.half_open()
        old.sendall(b"lost")
        assert is_silent(old)
        with connect(proxy) as new:
            assert ask(new, b"new") == b"new"
        proxy.heal()
        old.sendall(b"lost too")
        assert is_silent(old)
    assert proxy.statistics().lost == len(b"lostlost too")


def test_stalled_proxy_delivers_when_it_is_healed(proxy: FaultProxy) -> None:
    """Nothing is lost, as with a cable that is put back."""
    with connect(proxy) as client:
        assert ask(client, b"before") == b"before"
        proxy.stall()
        client.sendall(b"late")
        assert is_silent(client)
        proxy.heal()
        assert receive(client, 4) == b"late"


def test_unreachable_target_resets_the_client(echo: Echo) -> None:
    """As near as a proxy comes to a refused connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    with FaultProxy(free) as proxy, pytest.raises(ConnectionResetError), connect(proxy) as client:
        client.recv(1)


def test_leaving_the_block_closes_everything(echo: Echo) -> None:
    """Stalled connections included; the thread ends."""
    before = threading.active_count()
    with FaultProxy(echo.port) as proxy:
        client = connect(proxy)
        assert ask(client, b"before") == b"before"
        proxy.stall()
        client.sendall(b"never")
        inside = threading.active_count()
    with client, pytest.raises(ConnectionResetError):
        client.recv(1)
    assert threading.active_count() < inside
    assert before <= inside
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)


def test_statistics_count_connections(proxy: FaultProxy) -> None:
    """Open ones go down again when their client leaves."""
    with connect(proxy) as first, connect(proxy) as other:
        ask(first, b"1")
        ask(other, b"2")
        assert proxy.statistics().open == 2
    deadline = time.monotonic() + SECONDS
    while proxy.statistics().open:
        assert time.monotonic() < deadline
    assert proxy.statistics().accepted == 2


def test_end_closes_connections_being_accepted(echo: Echo) -> None:
    """An unclosed one would be told of when it is collected."""
    for _ in range(20):
        with FaultProxy(echo.port) as proxy:
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", proxy.port))
        client.close()
    gc.collect()
