"""An object that is read while its watch goes on: the newer of both answers is kept.

The response of a consistent read and an event of the watch arrive on different connections, in any
order. An event that is overwritten by an older response would be lost: the watch sends it once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.kube.client import Client, Page
from hotmap.kube.reflector import Reflector
from hotmap.kube.resources import BY_KIND, Selection
from hotmap.kube.store import Store
from hotmap.kube.store_writer import StoreWriter

KEY = ObjectKey("ConfigMap", "default", "app")
OTHER = KEY._replace(name="other")


class Stored(NamedTuple):
    resource_version: str
    level: str


def stored(version: int) -> Stored:
    return Stored(str(version), f"level {version}")


class ReadingClient:
    """Answers a list of one object; the watch delivers something before the answer is there."""

    def __init__(self, version: int | None, deliver: Callable[[], None]) -> None:
        self._version = version
        self._deliver = deliver
        self.params: dict[str, Any] = {}

    async def list_page(self, *_: object, **params: Any) -> Page[msgspec.Raw]:
        self.params = params
        self._deliver()
        if self._version is None:
            return Page([], "5", "")
        metadata = {"namespace": "default", "name": "app", "resourceVersion": str(self._version)}
        item = {"metadata": metadata, "data": {"LEVEL": f"level {self._version}"}}
        return Page([msgspec.Raw(msgspec.json.encode(item))], "5", "")


def keep(item: ConfigMap) -> Stored:
    data = item.data or {}
    return Stored(item.metadata.resource_version, data["LEVEL"])


@pytest.mark.parametrize(
    ("before", "delivered", "read", "after"),
    [
        (3, [], 5, 5),
        (3, [6], 5, 6),
        (3, [4], 5, 5),
        (None, [6], 5, 6),
        (3, [4, None], 5, None),
        (3, [None], 5, None),
        (3, [None, 6], None, 6),
        (None, [6], None, 6),
        (3, [4], None, None),
        (3, [], None, None),
        (None, [], 5, 5),
        # An etcd that was restored: nothing newer was delivered, so the older version counts.
        (9, [], 5, 5),
    ],
)
async def test_reread_keeps_what_the_watch_delivered_later(
    before: int | None, delivered: list[int | None], read: int | None, after: int | None
) -> None:
    store: Store[Stored] = Store()

    def put(version: int | None) -> None:
        if version is None:
            store.remove(KEY)
        else:
            store.put(KEY, stored(version))

    def deliver() -> None:
        store.put(OTHER, stored(7))  # of no interest
        for version in delivered:
            put(version)

    put(before)
    client = ReadingClient(read, deliver)
    reflector = Reflector(
        cast(Client, client),
        Selection(BY_KIND["ConfigMap"], label_selector="team=a"),
        type=ConfigMap,
        writer=StoreWriter(store, keep),
    )
    await reflector.reread(KEY)
    assert store.get(KEY) == (None if after is None else stored(after))
    assert client.params["label_selector"] == "team=a"
    assert client.params["field_selector"] == "metadata.name=app"


async def test_reread_of_an_unreadable_object_leaves_it_out() -> None:
    """It is neither present nor absent, as where the watch had delivered it."""

    def refuse(item: ConfigMap) -> Stored:
        raise RecursionError

    store: Store[Stored] = Store()
    store.put(KEY, stored(3))
    client = ReadingClient(5, lambda: None)
    reflector = Reflector(
        cast(Client, client),
        Selection(BY_KIND["ConfigMap"]),
        type=ConfigMap,
        writer=StoreWriter(store, refuse),
    )
    await reflector.reread(KEY)
    assert KEY not in store
    assert KEY in store.unreadable


@pytest.mark.parametrize(
    ("namespace", "key", "selected"),
    [
        (None, KEY, True),
        ("default", KEY, True),
        ("other", KEY, False),
        (None, KEY._replace(kind="Secret"), False),
        ("default", KEY._replace(kind="Secret"), False),
    ],
)
async def test_objects_are_reread_by_the_reflector_that_watches_them(
    namespace: str | None, key: ObjectKey, selected: bool
) -> None:
    reflector = Reflector(
        cast(Client, ReadingClient(5, lambda: None)),
        Selection(BY_KIND["ConfigMap"], namespace),
        type=ConfigMap,
        writer=StoreWriter(Store[Stored](), keep),
    )
    assert reflector.selects(key.kind, key.namespace) is selected
