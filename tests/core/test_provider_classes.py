"""What the statuses of pods say of a SecretProviderClass: the rules, as a table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.support.objects import KEY

from hotmap.core.model.objects import ObjectKey, ProviderClassPodStatus
from hotmap.core.model.provider_class import (
    PROVIDER_CLASS,
    ClassContent,
    MountedVersions,
    class_source,
    describe_mounts,
    first_content,
    next_content,
    read_mounted_versions,
)
from hotmap.core.model.source import changed_keys, parse_time
from hotmap.core.reloader.annotations import DialectSettings, Writing
from hotmap.core.reloader.patch import Stamp, Traces, stamp_patch

VAULT = ObjectKey(PROVIDER_CLASS, "shop", "vault")


def status(
    pod: str = "p1",
    versions: str = "x1",
    *,
    uid: str = "",
    version: int = 1,
    created: int = 0,
    written: int | None = None,
    generation: int = 1,
    manager: str = '{"f:status":{}}',
    **fields: Any,
) -> ProviderClassPodStatus:
    """A status with versions such as "x1 y2"; times are seconds of 12:00."""
    at = created if written is None else written
    body: dict[str, Any] = {
        "metadata": {
            "name": f"{pod}-shop-vault",
            "namespace": "shop",
            "uid": "status",
            "resourceVersion": str(version),
            "generation": generation,
            "creationTimestamp": f"2026-01-01T12:00:{created:02}Z",
            "ownerReferences": [{"kind": "Pod", "name": pod, "uid": uid or f"uid-{pod}"}],
            "managedFields": [{"time": f"2026-01-01T12:00:{at:02}Z", "fieldsV1": None}],
        },
        "status": {
            "podName": pod,
            "secretProviderClassName": "vault",
            "objects": [{"id": item[:1], "version": item[1:]} for item in versions.split()],
            **fields,
        },
    }
    text = msgspec.json.encode(body).decode().replace('"fieldsV1":null', f'"fieldsV1":{manager}')
    return msgspec.json.decode(text, type=ProviderClassPodStatus)


def reduced(item: ProviderClassPodStatus, known: MountedVersions | None = None) -> MountedVersions:
    found = read_mounted_versions(item, known)
    assert found is not None
    return found


class Step(NamedTuple):
    """A change of one pod's status: its versions ("" when it ends), and maybe another pod's uid."""

    pod: str
    versions: str
    uid: str = ""


class Cluster:
    """The statuses of one class, and the content that follows from them."""

    def __init__(self) -> None:
        self.mounts: dict[str, MountedVersions] = {}
        self.content: ClassContent | None = None
        self._version = 0

    def take(self, step: Step) -> None:
        self._version += 1
        old = self.mounts.pop(step.pod, None)
        new = None
        if step.versions:
            item = status(step.pod, step.versions, uid=step.uid, version=self._version)
            new = self.mounts[step.pod] = reduced(item, old)
        mounts = list(self.mounts.values())
        self.content = (
            first_content(mounts)
            if self.content is None
            else next_content(self.content, old, new, mounts)
        )

    def restart(self) -> None:
        """Forget everything but the statuses, as a controller does that restarts."""
        self.content = first_content(list(self.mounts.values()))

    def shown(self) -> str:
        assert self.content is not None
        if self.content.versions is None:
            return "?"
        return " ".join(f"{name}{version}" for name, version in self.content.versions)


def steps(text: str) -> list[Step]:
    """Read "p1=x1 y1, p1=x2 y1, p1/new=x1, p1=" as steps; after the slash is another pod's uid."""
    found = []
    for part in text.split(","):
        pod, _, versions = part.strip().partition("=")
        name, _, uid = pod.partition("/")
        found.append(Step(name, versions.strip(), uid))
    return found


#: (what happens, the content after each step, how often it is another content)
TABLE = [
    pytest.param("p1=x1, p2=x1, p3=x1", "x1 | x1 | x1", 0, id="new pods with the same versions"),
    pytest.param("p1=x1, p1=x2", "x1 | x2", 1, id="an update"),
    pytest.param("p1=x1 y1, p1=y1 x1", "x1 y1 | x1 y1", 0, id="another order"),
    pytest.param(
        "p1=x1, p2=x1, p1=x2, p2=x1, p2=x2", "x1 | x1 | x2 | x2 | x2", 1, id="a pod that is behind"
    ),
    pytest.param(
        "p1=x1, p2=x1, p1=x2, p1=, p3=x2, p2=x2",
        "x1 | x1 | x2 | x2 | x2 | x2",
        1,
        id="the updated pod is replaced while another is behind",
    ),
    pytest.param(
        "p1=x1 y1, p2=x1 y1, p1=x2 y2, p2=x2 y1, p2=x2 y2",
        "x1 y1 | x1 y1 | x2 y2 | x2 y2 | x2 y2",
        1,
        id="another node read one object earlier",
    ),
    pytest.param(
        "p1=x1 y1, p2=x1 y1, p1=x2 y1, p2=x2 y2",
        "x1 y1 | x1 y1 | x2 y1 | x2 y2",
        2,
        id="a second object changes while pods differ",
    ),
    pytest.param(
        "p1=x1, p2=x1, p1=x2, p1=x3, p2=x2, p2=x3",
        "x1 | x1 | x2 | x3 | x3 | x3",
        2,
        id="a pod that is two versions behind catches up in steps",
    ),
    pytest.param("p1=x1, p1=x2, p1=x1", "x1 | x2 | x1", 2, id="an update is taken back"),
    pytest.param(
        "p1=x1, p2=x1, p1=x2, p1=x3, p1=, p2=x2",
        "x1 | x1 | x2 | x3 | x3 | x2",
        3,
        id="an earlier version, and no pod shows a newer one",
    ),
    pytest.param(
        "p1=x1, p2=x2, p3=x3, p1=, p4=x4",
        "x1 | x1 | x1 | x1 | x1",
        0,
        id="every pod gets versions of its own",
    ),
    pytest.param("p1=x1, p2=x2, p1=", "x1 | x1 | x2", 1, id="a pod is replaced without rotation"),
    pytest.param(
        "p1=x1, p1/other=x2", "x1 | x2", 1, id="a pod of the same name in the same status"
    ),
    pytest.param("p1=x1, p1=, p2=x2", "x1 | x1 | x2", 1, id="from zero"),
    pytest.param("p1=x1, p1=, p2=x1", "x1 | x1 | x1", 0, id="from zero, with the same versions"),
    pytest.param(
        "p1=x1, p2=x2, p2=x1", "x1 | x1 | x1", 1, id="an update to what others have had all along"
    ),
    pytest.param("p1=x1 y1, p1=x1", "x1 y1 | x1", 1, id="an object is removed"),
    pytest.param("p1=x1, p1=x1 y1", "x1 | x1 y1", 1, id="an object is added"),
]


@pytest.mark.parametrize(("happens", "after", "changes"), TABLE)
def test_class_changes_once_for_all_its_pods(happens: str, after: str, changes: int) -> None:
    """One change is one other content, however many pods report it and in which order."""
    cluster = Cluster()
    shown, marks = [], []
    for step in steps(happens):
        cluster.take(step)
        shown.append(cluster.shown())
        assert cluster.content is not None
        marks.append(class_source(VAULT, cluster.content, None, [KEY]).marks)
    assert shown == [content.strip() for content in after.split("|")]
    assert sum(old != new for old, new in pairwise(marks)) == changes


@pytest.mark.parametrize(
    ("happens", "content"),
    [
        ("p1=x1, p2=x1", "x1"),
        ("p1=x1, p2=x1, p1=x2", "x2"),
        ("p1=x1, p2=x1, p1=x2, p2=x2", "x2"),
        pytest.param("p1=x1, p2=x2", "?", id="pods differ and none was updated"),
        pytest.param("p1=x1, p2=x1, p1=x2, p1=, p3=x2", "?", id="the updated pod has ended"),
        pytest.param(
            "p1=x1, p2=x1, p1=x2, p2=x2, p1=x3, p1=, p3=x3",
            "?",
            id="the pod with the last of two updates has ended",
        ),
        pytest.param("p1=x1, p1=x2, p3=x2", "x2", id="a new pod has the updated versions"),
    ],
)
def test_content_of_class_at_first_sight(happens: str, content: str) -> None:
    """An update shows the present versions; without one only agreement does."""
    mounts: dict[str, MountedVersions] = {}
    created: dict[str, int] = {}
    for second, step in enumerate(steps(happens)):
        if not step.versions:
            del mounts[step.pod]
            continue
        created[step.pod] = created.get(step.pod, 0) + 1
        generation = created[step.pod]
        item = status(
            step.pod, step.versions, version=second, generation=generation, written=second
        )
        mounts[step.pod] = reduced(item)
    found = first_content(list(mounts.values()))
    shown = "?" if found.versions is None else " ".join(n + v for n, v in found.versions)
    assert shown == content


@pytest.mark.parametrize(
    ("happens", "content"),
    [
        pytest.param("p1=", "x2", id="the older pod ends"),
        pytest.param("p2=", "?", id="the newer pod ends"),
        pytest.param("p2=, p3=x2", "?", id="the newer pod is replaced"),
        pytest.param("p2=, p3=x2, p1=", "x2", id="then the older pod ends"),
    ],
)
def test_end_of_older_pods_shows_unknown_content(happens: str, content: str) -> None:
    """The end of newer pods leaves only what was superseded."""
    cluster = Cluster()
    for step in steps("p1=x1, p2=x2"):
        cluster.take(step)
    cluster.restart()
    for step in steps(happens):
        cluster.take(step)
    assert cluster.shown() == content


def test_update_while_content_is_unknown_shows_it() -> None:
    """Pods that differ at first sight agree again once one is updated."""
    cluster = Cluster()
    for step in steps("p1=x1, p2=x2"):
        cluster.take(step)
    cluster.restart()
    assert cluster.shown() == "?"
    cluster.take(Step("p1", "x2"))
    assert cluster.shown() == "x2"
    assert cluster.content is not None
    assert cluster.content.by_update


# -- one status -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "item", "updated"),
    [
        pytest.param(None, status(), False, id="new"),
        pytest.param(None, status(written=30), False, id="annotated later"),
        pytest.param(None, status(generation=2), True, id="updated before"),
        pytest.param(status(), status(version=2), False, id="the same versions"),
        pytest.param(status(), status(versions="x2"), True, id="other versions"),
        pytest.param(status(), status(versions="x2", uid="other"), False, id="another pod"),
    ],
)
def test_update_of_mounted_versions(
    known: ProviderClassPodStatus | None, item: ProviderClassPodStatus, updated: bool
) -> None:
    """Whether a pod's files changed after it had mounted them."""
    assert reduced(item, reduced(known) if known else None).updated is updated


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"status":{"secretProviderClassName":"v","objects":"x"}}', "Expected `array"),
        (b'{"status":{"secretProviderClassName":"v","objects":[{"id":1}]}}', "Expected `str`"),
        (b'{"status":{"secretProviderClassName":["v"]}}', "Expected `str`"),
        (b'{"status":[]}', "Expected `object`"),
    ],
)
def test_status_with_wrong_types_is_refused(body: bytes, problem: str) -> None:
    """It cannot be decoded, which costs only itself."""
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.json.decode(body, type=ProviderClassPodStatus)


@pytest.mark.parametrize("versions", [" ".join(["x1"] * 1001), f"x{'1' * 70_000}"])
def test_status_that_is_too_large_is_refused(versions: str) -> None:
    """Each version of each pod is kept, so there is a bound."""
    with pytest.raises(msgspec.ValidationError, match="more than"):
        read_mounted_versions(status(versions=versions))


def test_status_with_missing_fields_is_read() -> None:
    """One without a class says nothing; one without objects has none; the owner names the pod."""
    assert read_mounted_versions(ProviderClassPodStatus()) is None
    bare = reduced(status(podName="", objects=None))
    assert (bare.pod, bare.versions) == ("p1", ())


@pytest.mark.parametrize(
    ("manager", "updated", "at"),
    [
        ('{"f:status":{}}', False, 7.0),
        ('{"f:metadata":{}}', True, 7.0),
        ("null", True, 7.0),
    ],
)
def test_versions_have_the_time_of_their_owner(manager: str, updated: bool, at: float) -> None:
    """Of the entry that owns them; where none does, of the newest write, which is not earlier."""
    item = status(written=7, generation=2 if updated else 1, manager=manager)
    assert reduced(item).written_at == parse_time("2026-01-01T12:00:00Z") + at  # type: ignore[operator]
    bare = msgspec.structs.replace(
        item, metadata=msgspec.structs.replace(item.metadata, managed_fields=None)
    )
    assert (reduced(bare).written_at is None) is updated


def test_mounts_say_what_each_pod_started_with() -> None:
    """Versions that were updated after the mount were not there at the start."""
    mounts = [reduced(status("p1", "x2")), reduced(status("p2", "x1"))]
    mounts.append(reduced(status("p3", "x2", written=40), reduced(status("p3", "x1"))))
    found = describe_mounts(first_content(mounts), mounts)
    assert [(pod.pod, pod.current, pod.updated) for pod in found.pods] == [
        ("p1", True, False),
        ("p2", False, False),
        ("p3", True, True),
    ]
    assert (found.is_known, found.by_update) == (True, True)


# -- the class as a source --------------------------------------------------------------------


def source(versions: Sequence[tuple[str, str]], **options: Any) -> Any:
    content = ClassContent(tuple(sorted(versions)), **options)
    return class_source(VAULT, content, None, [KEY], DialectSettings(writing=Writing.ENV_VARS))


def test_objects_are_data_keys() -> None:
    """A change names the object; hostile IDs stay apart, and no version shows."""
    before = source([("db/password", "1"), ("tls", "1")])
    assert changed_keys(before, source([("db/password", "2"), ("tls", "1")])) == {"db/password"}
    long = "l" * 300
    awkward = [("a\nb", "1"), ("a\\nb", "1"), (f"{long}1", "1"), (f"{long}2", "1")]
    assert len(list(source(awkward).marks[0])) == len(awkward)
    for number in range(len(awkward)):
        other = [(name, "2" if i == number else "1") for i, (name, _) in enumerate(awkward)]
        assert len(changed_keys(source(awkward), source(other))) == 1
    assert changed_keys(before, source([("db/password", "1"), ("tls", "1")], serial="7"))


def test_digest_of_class_is_reloaders() -> None:
    """Each `ID=version` and the name of the class, sorted and joined."""
    text = b"SecretProviderClassName=vault;db/password=1;tls=2"
    digest = hashlib.sha1(text, usedforsecurity=False).hexdigest()
    assert source([("tls", "2"), ("db/password", "1")]).stamp == digest


@pytest.mark.parametrize(
    ("writing", "written"),
    [
        (
            Writing.ENV_VARS,
            {"spec": {"containers": [{"name": "web", "env": [{"name": "%", "value": "1"}]}]}},
        ),
        (
            Writing.ANNOTATIONS,
            {
                "metadata": {
                    "annotations": {
                        "reloader.stakater.com/last-reloaded-from": '{"type":"SECRETPROVIDERCLASS",'
                        '"name":"vault","namespace":"shop","hash":"1","containerRefs":["web"],'
                        '"observedAt":7}'
                    }
                }
            },
        ),
    ],
)
def test_class_is_marked_with_a_type_of_its_own(writing: Writing, written: dict[str, Any]) -> None:
    """The same as for other sources, with a type of its own."""
    patch = stamp_patch(Traces("web"), [Stamp(VAULT, "1")], writing, namespace="shop", now=7.0)
    text = msgspec.json.encode(written).decode().replace("%", "STAKATER_VAULT_SECRETPROVIDERCLASS")
    assert patch["spec"]["template"] == msgspec.json.decode(text)
