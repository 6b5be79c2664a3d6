"""A store in etcd, behind the interface of `store`.

Everything is read from a copy in this process that follows etcd by a watch, as the watch cache of
kube-apiserver does; writes are transactions that compare the revision at which a key was read.
Requests go to etcd's JSON gateway (etcd: api/etcdserverpb/gw), so no gRPC library is needed.

A write blocks this process until etcd has answered, a few milliseconds, so code that reads and
writes without awaiting in between is not interrupted. Other API servers may write the same keys. If
such a server has written first, `StaleRead` is raised once the copy has that write.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from hotmap.core.errors import AlreadyExists, Conflict, NotFound, SettingsError, api_error
from hotmap.local.store import Entry, MVCCStore, Range, Reading, StaleRead
from hotmap.local.store_watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EtcdStore", "ValueCodec"]

_log = logging.getLogger(__name__)

_Message = dict[str, Any]

PREFIX = "/registry/"
_PAGE = 1_000
# Seconds for a request, and for the copy to see what etcd has acknowledged.
_TIMEOUT = 5.0
_CATCH_UP_TIMEOUT = 3.0
_RECONNECT_PAUSE = 0.2
# kube-apiserver: --event-ttl, and how long one lease is used for all new events.
_EVENTS = f"{PREFIX}events/"
_EVENT_TTL = 3600
_LEASE_REUSE = 60.0


class ValueCodec(Protocol):
    """How values are written in etcd."""

    def encode(self, key: str, value: bytes) -> bytes: ...

    def decode(self, key: str, value: bytes) -> bytes | None:
        """Return a value as it is read here, None for what cannot be decoded."""
        ...


class _Write(NamedTuple):
    key: str
    value: bytes | None
    revision: int


class _Batch(NamedTuple):
    """One message of the watch: writes in order, and the revision that it reaches."""

    writes: list[_Write]
    revision: int


class _Compacted(Exception):
    """Raised when etcd no longer has the revision from which a watch should go on."""


class EtcdStore:
    """Keeps everything under `/registry/` in etcd.

    Used by the thread of one event loop; `close` ends it.
    """

    def __init__(self, url: str, codec: ValueCodec) -> None:
        self._gateway = _Gateway(url)
        self._codec = codec
        self._copy = MVCCStore()
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = threading.Event()
        self._lease = ("", 0.0)
        # Why the watch does not go on; written by the follower only.
        self._interruption = ""
        self._follower = threading.Thread(target=self._follow, name="etcd-watch", daemon=True)

    def open(self) -> None:
        """Read everything, and follow it from then on.

        Raises:
            SettingsError: etcd does not answer.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._fill()
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            raise SettingsError(
                f"etcd at {self._gateway.url} does not answer: {_describe(error)}"
            ) from None
        self._follower.start()

    def close(self) -> None:
        """Stop following, and end every watch."""
        self._closed.set()
        self._gateway.close()
        self._copy.close()

    @property
    def revision(self) -> int:
        return self._copy.revision

    def get(self, key: str) -> Entry | None:
        return self._copy.get(key)

    def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int | None = None
    ) -> Range:
        return self._copy.range(prefix, after=after, limit=limit, revision=revision)

    def read(self, prefix: str, *, after: str = "", revision: int | None = None) -> Reading:
        return self._copy.read(prefix, after=after, revision=revision)

    def watch(self, prefix: str, *, since: int | None = None) -> Watch:
        return self._copy.watch(prefix, since=since)

    def create(self, key: str, value: bytes) -> int:
        if self._copy.get(key) is not None:
            raise AlreadyExists(f"{key} exists already")
        return self._put(key, value, 0)

    def update(self, key: str, value: bytes, *, expected: int) -> int:
        self._expect(key, expected)
        return self._put(key, value, expected)

    def delete(self, key: str, *, expected: int | None = None) -> int:
        entry = self._expect(key, expected)
        return self._commit(
            {"request_delete_range": {"key": _b64(key.encode())}},
            _Write(key, None, 0),
            entry.mod_revision,
        )

    def get_raw(self, key: str) -> bytes | None:
        """Get a value as etcd has it, None where it does not exist."""
        found = self._gateway.call("kv/range", {"key": _b64(key.encode())}).get("kvs")
        return base64.b64decode(found[0].get("value", "")) if found else None

    def catch_up(self) -> None:
        """Read every write that etcd has acknowledged to any client.

        Raises:
            Unavailable: etcd does not answer, or the watch is too slow.
        """
        self._read_until(self._current_revision())

    def failure(self) -> str:
        """Return why etcd cannot be followed at present; "" if it can."""
        return self._interruption

    def _put(self, key: str, value: bytes, expected: int) -> int:
        put: _Message = {"key": _b64(key.encode()), "value": _b64(self._codec.encode(key, value))}
        if key.startswith(_EVENTS):
            put["lease"] = self._event_lease()
        return self._commit({"request_put": put}, _Write(key, value, 0), expected)

    def _commit(self, operation: _Message, write: _Write, expected: int) -> int:
        """Carry out an operation on a key that was read at a revision, 0 for one that is not there.

        Raises:
            StaleRead: another server wrote it since.
            Unavailable: etcd does not answer; the write may have happened or not.
        """
        compare = {
            "key": _b64(write.key.encode()),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": str(expected),
        }
        transaction = {"compare": [compare], "success": [operation]}
        answer = self._request("kv/txn", transaction)
        revision = int(answer["header"]["revision"])
        if not answer.get("succeeded"):
            self._read_until(revision)
            raise StaleRead(f"{write.key} is no longer at revision {expected}")
        if revision == self._copy.revision + 1:
            # No other server has written; the watch reports it later.
            self._copy.apply(write.key, write.value, revision)
        else:
            self._read_until(revision)
        return revision

    def _expect(self, key: str, expected: int | None) -> Entry:
        entry = self._copy.get(key)
        if entry is None:
            raise NotFound(f"{key} does not exist")
        if expected is not None and entry.mod_revision != expected:
            raise Conflict(f"{key} is at revision {entry.mod_revision}, not at {expected}")
        return entry

    def _event_lease(self) -> str:
        lease, until = self._lease
        if time.monotonic() >= until:
            ttl = str(_EVENT_TTL + int(_LEASE_REUSE))
            lease = self._request("lease/grant", {"TTL": ttl})["ID"]
            self._lease = lease, time.monotonic() + _LEASE_REUSE
        return lease

    def _current_revision(self) -> int:
        answer = self._request("kv/range", {"key": _b64(b"/"), "count_only": True})
        return int(answer["header"]["revision"])

    def _request(self, path: str, message: _Message) -> _Message:
        try:
            return self._gateway.call(path, message)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unavailable(
                f"etcd at {self._gateway.url} does not answer: {_describe(error)}"
            ) from None

    def _read_until(self, revision: int) -> None:
        """Apply what the watch sends until the copy is at a revision."""
        until = time.monotonic() + _CATCH_UP_TIMEOUT
        while self._copy.revision < revision:
            try:
                batch = self._batches.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise _unavailable("etcd's watch is behind its writes") from None
            self._apply_batch(batch)

    def _drain(self) -> None:
        while not self._batches.empty():
            self._apply_batch(self._batches.get())

    def _apply_batch(self, batch: _Batch | None) -> None:
        if batch is None:
            self._start_over()
            return
        known = self._copy.revision
        for write in batch.writes:
            # What this process wrote is there already.
            if write.revision > known:
                self._copy.apply(write.key, write.value, write.revision)
        self._copy.advance(batch.revision)

    def _start_over(self) -> None:
        """Read everything again; watches end, and their readers have to list."""
        _log.warning("etcd compacted revisions that were not read yet; reading all keys again")
        self._copy.close()
        self._fill()

    def _fill(self) -> None:
        """Read everything as of one revision."""
        entries: list[Entry] = []
        start, revision = PREFIX, 0
        while True:
            page = self._gateway.call(
                "kv/range",
                {
                    "key": _b64(start.encode()),
                    "range_end": _b64(_end_of(PREFIX).encode()),
                    "limit": str(_PAGE),
                    "revision": str(revision),
                },
            )
            revision = revision or int(page["header"]["revision"])
            entries += self._entries(page.get("kvs", ()))
            if not page.get("more"):
                break
            start = base64.b64decode(page["kvs"][-1]["key"]).decode() + "\0"
        self._copy = MVCCStore()
        self._copy.restore(entries, revision)

    def _entries(self, found: list[_Message]) -> Iterator[Entry]:
        for item in found:
            key = base64.b64decode(item["key"]).decode(errors="replace")
            value = self._codec.decode(key, base64.b64decode(item.get("value", "")))
            if value is not None:
                created, modified = int(item["create_revision"]), int(item["mod_revision"])
                yield Entry(key, value, created, modified)

    def _follow(self) -> None:
        """Queue what etcd's watch delivers; the thread's body."""
        revision = self._copy.revision
        while not self._closed.is_set():
            try:
                for message in self._gateway.watch(revision + 1):
                    if self._interruption:
                        _log.info("the watch on etcd resumed")
                    self._interruption = ""
                    batch = self._batch(message)
                    revision = max(revision, batch.revision)
                    self._queue(batch)
            except _Compacted:
                revision = self._current_revision()
                self._queue(None)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not self._closed.is_set():
                    if not self._interruption:
                        _log.warning("the watch on etcd was interrupted: %s; resuming", error)
                    self._interruption = f"error getting data from etcd: {error}"
            self._closed.wait(_RECONNECT_PAUSE)

    def _queue(self, batch: _Batch | None) -> None:
        self._batches.put(batch)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain)

    def _batch(self, message: _Message) -> _Batch:
        if int(message.get("compact_revision", 0)):
            raise _Compacted
        writes: list[_Write] = []
        reached = 0
        for event in message.get("events", ()):
            item = event["kv"]
            # Not the revision of the message, which may be ahead of its events.
            reached = max(reached, int(item["mod_revision"]))
            key = base64.b64decode(item["key"]).decode(errors="replace")
            if not key.startswith(PREFIX):
                continue
            value = None
            if event.get("type") != "DELETE":
                raw = base64.b64decode(item.get("value", ""))
                value = self._codec.decode(key, raw)
            writes.append(_Write(key, value, int(item["mod_revision"])))
        return _Batch(writes, reached)


class _Gateway:
    """etcd's JSON gateway: one connection for requests, one for the watch."""

    def __init__(self, url: str) -> None:
        if "@" in url:  # would be in messages
            raise SettingsError("--etcd: a user or password in the URL is not supported")
        self.url = url.rstrip("/")
        try:
            parts = urlsplit(self.url)
            port = parts.port or 2379
        except ValueError:
            port = 0
        if not port or parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f"--etcd: invalid URL {url!r}: expected http://HOST:PORT")
        self._connect = (
            http.client.HTTPConnection if parts.scheme == "http" else http.client.HTTPSConnection
        )
        self._address = (parts.hostname, port)
        self._requests = self._connect(*self._address, timeout=_TIMEOUT)
        self._watch: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    def call(self, path: str, message: _Message) -> _Message:
        """Send a request; once more where the connection had been closed meanwhile."""
        with self._lock:
            try:
                try:
                    return self._send(self._requests, path, message)
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    self._requests.close()
                    return self._send(self._requests, path, message)
            except (OSError, http.client.HTTPException):
                self._requests.close()
                raise

    def watch(self, revision: int) -> Iterator[_Message]:
        """Watch all keys from a revision on, so that every revision is reported."""
        # Silence is not a failure here: etcd closes the connection when it ends.
        self._watch = self._connect(*self._address, timeout=None)
        everything = {"key": _b64(b"\0"), "range_end": _b64(b"\0")}
        request = {"create_request": {**everything, "start_revision": str(revision)}}
        try:
            self._watch.request("POST", "/v3/watch", msgspec.json.encode(request))
            response = self._watch.getresponse()
            while line := response.readline():
                message = msgspec.json.decode(line)
                if "error" in message:
                    raise ValueError(message["error"].get("message", "error"))
                yield message["result"]
        finally:
            self._watch.close()

    def close(self) -> None:
        self._requests.close()
        if self._watch is not None and self._watch.sock is not None:
            self._watch.sock.close()

    def _send(
        self, connection: http.client.HTTPConnection, path: str, message: _Message
    ) -> _Message:
        connection.request("POST", f"/v3/{path}", msgspec.json.encode(message))
        response = connection.getresponse()
        body = response.read()
        answer: _Message = msgspec.json.decode(body) if body else {}
        if response.status != 200:
            raise ValueError(answer.get("message") or f"HTTP status {response.status}")
        return answer


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _end_of(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _unavailable(text: str) -> Exception:
    return api_error(500, f"Internal error occurred: {text}", reason="InternalError")


def _describe(error: Exception) -> str:
    """Describe why a request failed, without the number that an OSError begins with."""
    return getattr(error, "strerror", None) or str(error)
