"""When a consumer's pods started, and what that proves about what they hold."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV, ENV_AND_FILES, deployment, pod, template, workload

from hotmap.core.decide.evidence import (
    MARGIN,
    PodStart,
    Span,
    all_started_after,
    find_pods_started_within,
)
from hotmap.core.decide.own_rollouts import was_made_for
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ObjectKey, Pod
from hotmap.core.model.state import Window
from hotmap.core.reloader.annotations import DialectSettings, Writing

TWO_READERS = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    - {name: log, volumeMounts: [{name: v, mountPath: /v}]}
    - {name: idle}
    volumes: [{name: v, configMap: {name: app}}]
"""

READ_BY_INIT = """
    initContainers: [{name: setup, envFrom: [{configMapRef: {name: app}}]}]
    containers: [{name: web}]
"""

READ_BY_BOTH = """
    initContainers: [{name: setup, envFrom: [{configMapRef: {name: app}}]}]
    containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]
"""

READ_BY_SIDECAR = """
    initContainers: [{name: proxy, restartPolicy: Always, envFrom: [{configMapRef: {name: app}}]}]
    containers: [{name: web}]
"""

FOREIGN_INIT = """
    initContainers: [{name: setup, volumeMounts: [{name: v, mountPath: /v}]}]
    containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]
    volumes: [{name: v, csi: {driver: d, volumeAttributes: {secretProviderClass: vault}}}]
"""


FILES_OF_INIT = """
    initContainers: [{name: setup, volumeMounts: [{name: v, mountPath: /v}]}]
    containers: [{name: web}]
    volumes: [{name: v, configMap: {name: app}}]
"""


BESIDE_FOREIGN = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    - {name: vault, volumeMounts: [{name: v, mountPath: /v}]}
    volumes:
    - name: v
      csi:
        driver: secrets-store.csi.k8s.io
        volumeAttributes: {secretProviderClass: vault}
"""


@pytest.mark.parametrize(
    ("spec", "member", "at"),
    [
        pytest.param(ENV, pod(started=100.9), 100.0, id="its container, in whole seconds"),
        pytest.param(ENV, pod(started=None), None, id="not started yet"),
        pytest.param(ENV, pod(started=50, containers={"web": None}), None, id="waiting to restart"),
        pytest.param(
            TWO_READERS,
            pod(started=50, containers={"web": 300, "log": 200, "idle": 60}),
            199.0,
            id="the earliest of those that use a source",
        ),
        pytest.param(
            TWO_READERS,
            pod(started=50, containers={"web": None, "log": 200}),
            199.0,
            id="one that is down will read what is there",
        ),
        pytest.param(
            READ_BY_INIT,
            pod(started=50, containers={"web": 300}, ended={"setup": 60}),
            59.0,
            id="read by an init container",
        ),
        pytest.param(
            FILES_OF_INIT,
            pod(started=50, containers={"web": 300}, ended={"setup": 60}),
            50.0,
            id="files of an init container: the pod's creation",
        ),
        pytest.param(
            READ_BY_SIDECAR,
            pod(started=50, containers={"web": 300}, restartable={"proxy": 70}),
            69.0,
            id="a restartable init container is one like others",
        ),
        pytest.param(
            FOREIGN_INIT,
            pod(started=50, containers={"web": 300}),
            299.0,
            id="an init container that reads foreign content only",
        ),
        pytest.param(
            BESIDE_FOREIGN,
            pod(started=50, containers={"web": 300, "vault": 60}),
            59.0,
            id="another container that mounts foreign content",
        ),
        pytest.param(
            "", pod(started=50, containers={"web": 300}), 299.0, id="no use: any container"
        ),
    ],
)
def test_pod_is_as_old_as_its_oldest_reader(spec: str, member: Pod, at: float | None) -> None:
    """A pod started when the first of its containers that use a source did."""
    (start,) = pod_starts(deployment(spec), [member])
    assert start.at == at


INJECTED = """
    initContainers:
    - {name: agent, restartPolicy: Always, volumeMounts: [{name: v, mountPath: /v}]}
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    volumes: [{name: v, configMap: {name: app}}]
"""


@pytest.mark.parametrize(
    ("added", "at", "restarted"),
    [
        pytest.param("", 299.0, True, id="the agent only has files"),
        pytest.param("{name: log, volumeMounts: [{name: v, mountPath: /v}]}", 299.0, True,
                     id="another container with files"),
        pytest.param("{name: log, envFrom: [{configMapRef: {name: app}}]}", 199.0, False,
                     id="another container with an environment"),
        pytest.param("{name: log, volumeMounts: [{name: v, mountPath: /v, subPath: a}]}", 199.0,
                     False, id="another container with a file that is bound at its start"),
    ],
)  # fmt: skip
def test_container_with_files_only_has_read_nothing_at_its_start(
    added: str, at: float, restarted: bool
) -> None:
    """The application was restarted in place, and what a webhook has added was not."""
    member = pod(started=50, containers={"web": 300, "log": 200}, restartable={"agent": 60})
    assert member.status.container_statuses is not None
    web, log = member.status.container_statuses
    status = msgspec.structs.replace(
        member.status,
        container_statuses=[msgspec.structs.replace(web, restart_count=1), log],
    )
    more = f"    - {added}\n" if added else ""
    found = template(INJECTED.replace("    volumes:", f"{more}    volumes:"))
    member = msgspec.structs.replace(member, spec=found.spec, status=status)
    (start,) = pod_starts(deployment(INJECTED), [member])
    assert start.at == 59.0, "files are judged by the oldest of all"
    assert start.of_content_read_at_start().at == at
    assert all(container.restarted for container in start.at_start) is restarted


TWO_ENVIRONMENTS = """
    initContainers:
    - {name: hotmap-agent, restartPolicy: Always}
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    - {name: log, envFrom: [{configMapRef: {name: other}}]}
    - {name: idle}
"""


@pytest.mark.parametrize(
    ("named", "at"),
    [
        pytest.param((), 299.0, id="what is not followed is not judged"),
        pytest.param(("app", "other"), 199.0, id="both are followed"),
        pytest.param(("app", ""), 69.0, id="any container may read what is followed by name"),
    ],
)
def test_containers_that_read_followed_content_count(named: tuple[str, ...], at: float) -> None:
    """A container that has only read other content says nothing; agents read nothing by name."""
    who = deployment(TWO_ENVIRONMENTS, annotations={"hotmap.dev/agent": ""})
    uses = [use for use in who.uses if use.source.name in (named or ("app",))]
    if "" in named:
        uses.append(uses[0]._replace(source=ObjectKey("ConfigMap", "shop", "named"), container=""))
    started = {"web": 300.0, "log": 200.0, "idle": 70.0}
    member = pod(started=50, containers=started, restartable={"hotmap-agent": 60})
    member = msgspec.structs.replace(member, spec=template(TWO_ENVIRONMENTS).spec)
    (start,) = pod_starts(who, [member], followed=uses)
    assert start.of_content_read_at_start().at == at


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(pod(started=1, terminating=True), id="terminating"),
        pytest.param(pod(started=1, phase="Succeeded"), id="succeeded"),
        pytest.param(pod(started=1, phase="Failed"), id="failed"),
    ],
)
def test_terminating_pods_do_not_count(member: Pod) -> None:
    """Terminating and finished pods neither prove nor disprove anything."""
    assert pod_starts(deployment(ENV), [member]) == ()


def test_pod_shows_the_revision_of_its_template() -> None:
    """The revision that a pod was made with is kept beside its start."""
    (start,) = pod_starts(deployment(ENV), [pod(started=7, revision="k.abc")])
    assert (start.name, start.at, start.revision) == ("web-1", 7.0, "k.abc")


@pytest.mark.parametrize(
    ("starts", "changed_at", "proven"),
    [
        pytest.param([], 100.0, True, id="no pods"),
        pytest.param([], None, True, id="no pods, unknown change"),
        pytest.param([None], None, True, id="not started: it will read what is there"),
        pytest.param([102.0], 100.0, True, id="the margin after"),
        pytest.param([101.0], 100.0, False, id="inside the margin: not proven"),
        pytest.param([100.0], 100.0, False, id="the same second: seen to hold the old value"),
        pytest.param([99.0], 100.0, False, id="before"),
        pytest.param([200.0, 99.0], 100.0, False, id="one old pod"),
        pytest.param([200.0, None], 100.0, True, id="young and not started"),
        pytest.param([200.0], None, False, id="unknown counts as just now"),
    ],
)
def test_younger_pods_are_proven(
    starts: list[float | None], changed_at: float | None, proven: bool
) -> None:
    """Only pods that all started two seconds after a change certainly have it."""
    members = [PodStart(f"web-{number}", at, "") for number, at in enumerate(starts)]
    assert MARGIN == 2.0
    assert all_started_after(members, changed_at) is proven


@pytest.mark.parametrize(
    ("started", "mounted", "proven"),
    [
        pytest.param(200.0, 150.0, True, id="mounted after it"),
        pytest.param(200.0, 99.0, False, id="its image was pulled during the change"),
        pytest.param(None, 99.0, False, id="mounted before it, and not started yet"),
        pytest.param(None, None, True, id="not mounted yet"),
    ],
)
def test_files_are_as_old_as_their_mount(
    started: float | None, mounted: float | None, proven: bool
) -> None:
    """They are written before images are pulled."""
    members = [PodStart("web-1", started, "", mounted=mounted), PodStart("web-2", 200.0, "")]
    assert all_started_after(members, 100.0, files=True) is proven
    assert all_started_after(members, 100.0) is True


@pytest.mark.parametrize(
    ("at", "inside"),
    [(97.0, False), (98.0, True), (105.0, True), (112.0, True), (113.0, False), (None, False)],
)
def test_window_is_wider_by_the_margin(at: float | None, inside: bool) -> None:
    """A pod that started up to two seconds beside a window may hold its content."""
    spans = () if at is None else (Span(at, at),)
    suspects = find_pods_started_within([PodStart("web-1", at, "", spans)], [Window(100, 110)])
    assert suspects == (("web-1",) if inside else ())


@pytest.mark.parametrize(
    ("spec", "member"),
    [
        pytest.param(
            TWO_READERS, pod(started=50, containers={"web": 105, "log": 60}), id="beside an old one"
        ),
        pytest.param(
            READ_BY_INIT.replace(
                "[{name: web}]", "[{name: web, envFrom: [{secretRef: {name: db}}]}]"
            ),
            pod(started=50, containers={"web": 105}),
            id="in a pod with an init container",
        ),
    ],
)
def test_container_that_restarted_in_a_window_is_seen(spec: str, member: Pod) -> None:
    """One crashed container reads the content of that moment, whatever its neighbours hold."""
    starts = pod_starts(deployment(spec), [member])
    assert find_pods_started_within(starts, [Window(100, 110)]) == ("web-1",)


TWO_INIT_CONTAINERS = """
    initContainers:
    - {name: first, envFrom: [{configMapRef: {name: app}}]}
    - {name: second, envFrom: [{configMapRef: {name: app}}]}
    containers: [{name: web}]
"""


@pytest.mark.parametrize(
    ("spec", "ended", "seen"),
    [
        pytest.param(TWO_INIT_CONTAINERS, {"first": 60, "second": 105}, True, id="the second one"),
        pytest.param(TWO_INIT_CONTAINERS, {"first": 60, "second": 90}, False, id="both before"),
        pytest.param(TWO_INIT_CONTAINERS, {"first": 60, "second": 120}, False,
                     id="one before, one after"),
        pytest.param(FILES_OF_INIT, {"setup": 120}, True, id="files that were written before"),
        pytest.param(FILES_OF_INIT, {"setup": 90}, False, id="files that were read before"),
    ],
)  # fmt: skip
def test_init_container_that_started_in_a_window_is_seen(
    spec: str, ended: dict[str, float], seen: bool
) -> None:
    """The pod was acknowledged long before; init containers may run for minutes."""
    member = pod(started=50, containers={"web": 200}, ended=ended)
    member = msgspec.structs.replace(member, spec=template(spec).spec)
    starts = pod_starts(deployment(spec), [member])
    assert bool(find_pods_started_within(starts, [Window(100, 110)])) is seen


def test_init_container_that_a_webhook_adds_may_have_earlier_files() -> None:
    """What its volumes had when the pod was created, long before its own start."""
    setup = "\n    initContainers: [{name: setup, envFrom: [{configMapRef: {name: app}}]}]"
    member = pod(started=50, containers={"web": 200}, ended={"setup": 105})
    member = msgspec.structs.replace(member, spec=template(setup + ENV).spec)
    starts = pod_starts(deployment(ENV), [member])
    assert find_pods_started_within(starts, [Window(60, 70)]) == ("web-1",)


def test_restart_of_unrelated_container_does_not_count() -> None:
    """A restart of a container without uses is not a suspicion."""
    member = pod(started=50, containers={"web": 60, "idle": 105})
    starts = pod_starts(deployment(ENV_AND_FILES), [member])
    assert find_pods_started_within(starts, [Window(100, 110)]) == ()


# -- clocks of nodes that are wrong ------------------------------------------------------------


@pytest.mark.parametrize("skew", [-600, -2, 0, 2, 600])
@pytest.mark.parametrize(
    ("waited", "span"),
    [
        pytest.param(0, Span(1000, 1001), id="at once"),
        pytest.param(1, Span(1000, 1002), id="within the second after"),
        pytest.param(30, Span(1029, 1031), id="a pull of its image later"),
        pytest.param(7200, Span(8199, 8201), id="restarted hours later"),
    ],
)
def test_node_clock_offset_cancels_out(skew: int, waited: int, span: Span) -> None:
    """A start is the pod's creation and what has passed since on the node's own clock."""
    member = pod(
        created=1000,
        started=1000 + skew,
        containers={"web": 1000 + skew + waited},
        reported=1000 + waited,
    )
    (start,) = pod_starts(deployment(ENV), [member])
    assert start.at == span.earliest
    assert bounds(start) == [span]


def bounds(start: PodStart) -> list[Span]:
    """Return the bounds of a pod's starts, without what its node's clock says."""
    return [Span(*span[:2]) for span in start.containers]


@pytest.mark.parametrize("skew", [-600, 600])
@pytest.mark.parametrize(
    ("member", "span"),
    [
        pytest.param({"started": 1600, "scheduled": 1600}, Span(1000, 1601), id="pending for long"),
        pytest.param(
            {"started": 1600, "scheduled": 900}, Span(1000, 1001), id="scheduled before it was made"
        ),
    ],
)
def test_pod_waiting_for_node_widens_bounds(skew: int, member: dict[str, Any], span: Span) -> None:
    """What its node did between creation and scheduling is unknown: both bounds stay."""
    member |= {"started": member["started"] + skew}
    (start,) = pod_starts(deployment(ENV), [pod(created=1000, **member)])
    assert bounds(start) == [span]


@pytest.mark.parametrize(
    ("window", "suspected"),
    [
        pytest.param(Window(1085, 1095), True, id="it started in it"),
        pytest.param(Window(1050, 1058), True, id="or in it, if the clock is ahead"),
        pytest.param(Window(1095, 1099), False, id="after both"),
        pytest.param(Window(1020, 1040), False, id="before both"),
    ],
)
def test_kubelet_that_saw_its_pod_late_hides_no_start_in_a_window(
    window: Window, suspected: bool
) -> None:
    """Its `startTime` is 30 s after the pod was scheduled: its clock is ahead, or it was away.

    So the container started at 1060 or at 1090.
    """
    member = pod(created=1000, scheduled=1000, started=1030, containers={"web": 1090})
    starts = pod_starts(deployment(ENV), [member])
    assert find_pods_started_within(starts, [window]) == (("web-1",) if suspected else ())


def test_node_clock_that_is_ahead_raises_no_suspicion_after_the_last_report() -> None:
    member = pod(created=1000, started=1600, containers={"web": 1660}, reported=1070)
    starts = pod_starts(deployment(ENV), [member])
    assert find_pods_started_within(starts, [Window(1600, 1700)]) == ()


@pytest.mark.parametrize(
    ("member", "span"),
    [
        pytest.param(
            pod(created=1000, started=1000, containers={"web": 2000}, reported=1500),
            Span(1000, 1501),
            id="set forward: reported before it started",
        ),
        pytest.param(
            pod(created=1000, started=1000, containers={"web": 400}, reported=1500),
            Span(1000, 1501),
            id="set back: started before its pod was known",
        ),
        pytest.param(
            pod(created=1000, started=None, containers={"web": 1200}, reported=1500),
            Span(1000, 1501),
            id="unknown when the node took it",
        ),
        pytest.param(
            pod(created=1000, started=1000, containers={"web": 400}),
            Span(1000, inf),
            id="set back, and no report was recorded",
        ),
    ],
)
def test_clock_set_meanwhile_proves_nothing(member: Pod, span: Span) -> None:
    """Only the creation and the last report of the status bound such a start."""
    (start,) = pod_starts(deployment(ENV), [member])
    assert start.containers == (span,)


def test_pod_without_a_creation_is_never_young() -> None:
    """Whatever leaves it out, nothing is proven by a pod of unknown age."""
    starts = pod_starts(deployment(ENV), [pod(created=0, started=5000)])
    assert not all_started_after(starts, 1000.0)


@pytest.mark.parametrize("skew", [-600, 0, 600])
@pytest.mark.parametrize(
    ("changed_at", "proven"), [(900, True), (998, True), (999, False), (1300, False)]
)
def test_wrong_clock_proves_neither_too_much_nor_too_little(
    skew: int, changed_at: float, proven: bool
) -> None:
    """A pod is younger than what was edited before it was made, and than nothing else."""
    member = pod(created=1000, started=1000 + skew, reported=1001)
    assert all_started_after(pod_starts(deployment(ENV), [member]), changed_at) is proven


@pytest.mark.parametrize("skew", [-600, 0, 600])
@pytest.mark.parametrize(
    ("made", "suspect"),
    [(90, False), (96, False), (97, True), (105, True), (112, True), (113, False), (200, False)],
)
def test_wrong_clock_neither_hides_nor_makes_a_suspect(
    skew: int, made: float, suspect: bool
) -> None:
    """Only a pod made in a window, or right beside it, may hold its content."""
    member = pod(created=made, started=made + skew, reported=made)
    starts = pod_starts(deployment(ENV), [member])
    assert find_pods_started_within(starts, [Window(100, 110)]) == (("web-1",) if suspect else ())


MARKED = """
    containers:
    - name: web
      env:
      - {name: STAKATER_APP_CONFIGMAP, value: "2"}
      - {name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}
"""


@pytest.mark.parametrize(
    ("spec", "created", "applied_at", "expected"),
    [
        pytest.param(MARKED, 100, 100.7, True, id="of the rollout"),
        pytest.param(MARKED, 100, 101.2, True, id="created before the write was answered"),
        pytest.param(MARKED, 98, 100.7, False, id="older, of a template with the same marks"),
        pytest.param(MARKED, 100, 0.0, False, id="rollout not known"),
        pytest.param(MARKED.replace("2", "1"), 100, 100.7, False, id="of the template before"),
        pytest.param(ENV, 100, 100.7, False, id="without marks"),
    ],
)
def test_pod_with_the_marks_of_a_rollout_was_made_for_its_content(
    spec: str, created: float, applied_at: float, expected: bool
) -> None:
    """With Reloader's strategies no template names its content; see `was_made_for`."""
    dialect = DialectSettings(writing=Writing.ENV_VARS)
    who = consumer_from_workload("Deployment", workload(MARKED), dialect)
    member = msgspec.structs.replace(pod(started=created), spec=template(spec).spec)
    (start,) = pod_starts(who, [member])
    assert was_made_for(start, "key.content", applied_at=applied_at) is expected
