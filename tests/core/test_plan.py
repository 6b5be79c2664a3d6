"""Which actions a change needs, by kind, strategy and use, and the sentence that explains them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.freshness import assess_sources
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    KEY,
    config_map,
    consumer,
    sources,
)

from hotmap.core.decide.assessment import Assessment, Finding, Verdict
from hotmap.core.decide.plan import Action, ActionType, Plan, make_plan
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.core.model.source import changed_keys
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Policy, followed_uses, live_change_needs_rollout

A = {"LEVEL": "info", "app.yaml": "a: 1", "other": "x"}
FROZEN = A | {"LEVEL": "debug"}
LIVE = A | {"app.yaml": "a: 2"}
UNUSED = A | {"other": "y"}
APP = ObjectKey("ConfigMap", "shop", "app")

ROLLOUT, NUDGE, NOTIFY = (
    Action(ActionType.ROLLOUT),
    Action(ActionType.NUDGE),
    Action(ActionType.NOTIFY),
)


def planned(
    who: Consumer,
    data: dict[str, str] | None,
    *,
    seen: bool = True,
    before: ConfigMap | None = None,
    applied_generation: int | None = None,
    **known: Any,
) -> Plan:
    """Plan for a consumer to which A was applied and that now finds other data (None: deleted).

    Its annotations say what it permits; `seen` tells whether anybody saw which data keys changed,
    `applied_generation` its generation when A was applied, if that differs from the current one.
    """
    policy = read_policy(who)
    old = sources(before or config_map("app", A))
    new = {} if data is None else sources(config_map("app", data, version=2))
    uses = followed_uses(who, policy, new)
    live_needs_rollout = live_change_needs_rollout(who, policy)
    first = assess_sources(who, None, take_snapshots(uses, old, KEY), now=0)
    generation = who.generation if applied_generation is None else applied_generation
    record = record_applied(who, None, first.findings, key_id=KEY.id, generation=generation)
    snapshots = take_snapshots(uses, new, KEY)
    revision = revision_of(snapshots, KEY, uid=who.uid, live_needs_rollout=live_needs_rollout)
    assessment = assess_sources(
        who,
        record,
        snapshots,
        now=9,
        revision=revision,
        live_needs_rollout=live_needs_rollout,
        **known,
    )
    changed = {APP: changed_keys(old[APP], new.get(APP))} if seen else {}
    return make_plan(who, policy, assessment, changed=changed)


def opted_in(kind: str, spec: str, said: dict[str, str] | None = None, **options: Any) -> Consumer:
    """Make a consumer with follow=auto and further annotations of hotmap.dev."""
    annotations = {f"hotmap.dev/{k}": v for k, v in {"follow": "auto", **(said or {})}.items()}
    return consumer(kind, spec, annotations=annotations, **options)


ENV_CAUSE = "ConfigMap shop/app LEVEL changed (containers[web].env[LEVEL])"
FILE_CAUSE = "ConfigMap shop/app app.yaml changed (volumes[config] at containers[web]:/etc/app)"
RESTARTER = {"agent": "restart=supervised"}


@pytest.mark.parametrize(
    ("said", "data", "actions", "reason"),
    [
        pytest.param({}, A, (), "ConfigMap shop/app is unchanged", id="no change"),
        pytest.param(
            {},
            UNUSED,
            (),
            "ConfigMap shop/app other changed, but is not used",
            id="an unused data key",
        ),
        pytest.param({}, FROZEN, (ROLLOUT,), f"{ENV_CAUSE}: rolling out", id="frozen"),
        pytest.param(
            {},
            LIVE,
            (ROLLOUT,),
            f"{FILE_CAUSE}: rolling out, since the application is not known to reload files",
            id="live, never re-read",
        ),
        pytest.param(
            {"rereads": "true"},
            LIVE,
            (NUDGE,),
            f"{FILE_CAUSE}: refreshing mounted files; the application re-reads them",
            id="live, rereads",
        ),
        pytest.param(
            {"rereads": "true"},
            FROZEN,
            (ROLLOUT,),
            f"{ENV_CAUSE}: rolling out",
            id="frozen, rereads",
        ),
        pytest.param(
            {"agent": ""},
            LIVE,
            (NUDGE,),
            f"{FILE_CAUSE}: refreshing mounted files; the agent reloads the application",
            id="live, agent",
        ),
        pytest.param(
            {"agent": ""},
            FROZEN,
            (ROLLOUT,),
            f"{ENV_CAUSE}: rolling out",
            id="frozen, agent that may not restart",
        ),
        pytest.param(
            RESTARTER,
            FROZEN,
            (Action(ActionType.NUDGE),),
            f"{ENV_CAUSE}: the agent restarts the application in place",
            id="frozen, agent that may restart",
        ),
        pytest.param(
            RESTARTER | {"strategy": "rollout"},
            FROZEN,
            (ROLLOUT,),
            f"{ENV_CAUSE}: rolling out",
            id="strategy rollout goes over the agent",
        ),
        pytest.param(
            {"strategy": "nudge"},
            LIVE,
            (NUDGE,),
            f"{FILE_CAUSE}: refreshing mounted files (strategy nudge)",
            id="live, strategy nudge",
        ),
        pytest.param(
            {"strategy": "nudge"},
            FROZEN,
            (NUDGE, NOTIFY),
            f"{ENV_CAUSE}: refreshing mounted files; "
            "the rest takes effect at the next restart (strategy nudge)",
            id="frozen, strategy nudge",
        ),
        pytest.param(
            RESTARTER | {"strategy": "nudge"},
            FROZEN,
            (NUDGE, NOTIFY),
            f"{ENV_CAUSE}: refreshing mounted files; "
            "the agent restarts the application in place (strategy nudge)",
            id="frozen, strategy nudge, agent that may restart",
        ),
        pytest.param(
            {"strategy": "notify"},
            FROZEN,
            (NOTIFY,),
            f"{ENV_CAUSE}: reported only, since the strategy is notify",
            id="frozen, strategy notify",
        ),
        pytest.param(
            {"strategy": "notify", "rereads": "true"},
            LIVE,
            (NOTIFY,),
            f"{FILE_CAUSE}: reported only, since the strategy is notify",
            id="live, strategy notify",
        ),
    ],
)
def test_least_disruptive_action_is_chosen(
    said: dict[str, str], data: dict[str, str], actions: tuple[Action, ...], reason: str
) -> None:
    """A Deployment gets the least disruptive actions that its strategy and its pods permit."""
    plan = planned(opted_in("Deployment", ENV_AND_FILES, said), data)
    assert (plan.actions, plan.reason) == (actions, reason)
    assert (plan.settles, plan.warning, plan.requeue_after) == (True, False, None)


TWO_READERS = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    - {name: log, envFrom: [{configMapRef: {name: app}}]}
"""
READ_BY_INIT = """
    initContainers: [{name: setup, envFrom: [{configMapRef: {name: app}}]}]
    containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]
"""

BESIDE_OTHER_READER = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    - {name: log, envFrom: [{configMapRef: {name: other, optional: true}}]}
"""
BESIDE_AGENT = """
    containers:
    - {name: web, envFrom: [{configMapRef: {name: app}}]}
    - {name: hotmap-agent, volumeMounts: [{name: v, mountPath: /v}]}
    - {name: idle}
    volumes: [{name: v, configMap: {name: app}}]
"""


@pytest.mark.parametrize(
    ("agent", "spec", "in_place"),
    [
        ("restart=supervised", ENV, True),
        ("restart=supervised", TWO_READERS, False),
        ("container=web;restart=supervised", TWO_READERS, False),
        ("container=web;restart=term", TWO_READERS, False),
        ("container=web;restart=supervised,container=log;restart=term", TWO_READERS, True),
        ("container=web;restart=supervised,restart=term", TWO_READERS, True),
        ("container=web;restart=supervised", READ_BY_INIT, False),
        ("container=web;restart=all-containers", TWO_READERS, True),
        ("restart=all-containers", READ_BY_INIT, True),
        ("restart=term", BESIDE_OTHER_READER, False),
        ("container=web;restart=term", BESIDE_OTHER_READER, True),
        ("container=log;restart=term", BESIDE_OTHER_READER, False),
        ("restart=term", BESIDE_AGENT, True),
    ],
)
def test_restart_in_place_has_to_reach_each_container(
    agent: str, spec: str, in_place: bool
) -> None:
    """One that has read the change at start, and that no agent restarts, needs a new pod."""
    plan = planned(opted_in("Deployment", spec, {"agent": agent}), FROZEN)
    nudge = Action(ActionType.NUDGE)
    assert plan.actions == ((nudge,) if in_place else (ROLLOUT,))


@pytest.mark.parametrize(
    ("agent", "others", "in_place"),
    [
        ("container=web;restart=term", ("hotmap-agent",), True),
        ("restart=term", ("hotmap-agent",), True),
        ("container=web;restart=term", ("hotmap-agent", "log"), False),
        ("restart=term", ("hotmap-agent", "log"), False),
        ("restart=all-containers", ("hotmap-agent", "log"), True),
        ("container=web;restart=term,container=log;restart=term", ("log",), True),
    ],
)
def test_restart_for_a_source_followed_by_name_has_to_reach_each_application(
    agent: str, others: tuple[str, ...], in_place: bool
) -> None:
    """Any of them may have read it."""
    names = ", ".join(f"{{name: {name}}}" for name in ("web", *others))
    said = {"follow": "ConfigMap/app", "agent": agent}
    plan = planned(opted_in("Deployment", f"containers: [{names}]", said), FROZEN)
    assert plan.actions == ((Action(ActionType.NUDGE),) if in_place else (ROLLOUT,))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "rolling out, since the application is not known to reload files"),
        ({"strategy": "rollout"}, "rolling out (strategy rollout)"),
        ({"strategy": "rollout", "rereads": "true"}, "rolling out (strategy rollout)"),
    ],
)
def test_file_change_explains_the_need_for_new_pods(said: dict[str, str], why: str) -> None:
    """Where nothing was read at start, a rollout gives its reason."""
    plan = planned(opted_in("Deployment", FILES, said), LIVE)
    assert plan.actions == (ROLLOUT,)
    assert plan.reason == f"{FILE_CAUSE}: {why}"


def test_nothing_is_nudged_where_nothing_is_mounted() -> None:
    """With strategy nudge and only environments, there is nothing to refresh."""
    plan = planned(opted_in("Deployment", ENV, {"strategy": "nudge"}), FROZEN)
    assert plan.actions == (NOTIFY,)
    assert plan.reason == (f"{ENV_CAUSE}: takes effect at the next restart (strategy nudge)")


def test_nudged_agent_is_not_said_to_restart_what_it_does_not() -> None:
    """Another container has read the change at start too."""
    spec = TWO_READERS + "    volumes: [{name: v, configMap: {name: app}}]\n"
    spec = spec.replace("{name: log,", "{name: log, volumeMounts: [{name: v, mountPath: /v}],")
    said = {"agent": "container=web;restart=supervised", "strategy": "nudge"}
    plan = planned(opted_in("Deployment", spec, said), FROZEN)
    assert plan.actions == (NUDGE, NOTIFY)
    assert plan.reason.endswith(
        "refreshing mounted files; the agent restarts the application in place, and the rest takes "
        "effect at the next restart (strategy nudge)"
    )


@pytest.mark.parametrize(
    ("kind", "options", "outcome"),
    [
        pytest.param("Deployment", {}, "rolling out", id="Deployment"),
        pytest.param("StatefulSet", {"partition": 0}, "rolling out", id="StatefulSet"),
        pytest.param("DaemonSet", {}, "rolling out", id="DaemonSet"),
        pytest.param("Rollout", {}, "rolling out", id="Argo Rollout"),
        pytest.param(
            "Deployment",
            {"paused": True},
            "rolling out when the Deployment is resumed",
            id="paused",
        ),
        pytest.param(
            "DaemonSet",
            {"update_strategy": "OnDelete"},
            "rolling out as pods are deleted (OnDelete)",
            id="OnDelete",
        ),
        pytest.param(
            "StatefulSet",
            {"update_strategy": "RollingUpdate", "partition": 2},
            "rolling out pods from ordinal 2 (partition)",
            id="partition",
        ),
    ],
)
def test_kinds_with_template_are_rolled_out(
    kind: str, options: dict[str, Any], outcome: str
) -> None:
    """Kinds with a template roll, within what their own strategy lets through."""
    plan = planned(opted_in(kind, ENV, **options), FROZEN)
    assert (plan.actions, plan.reason) == ((ROLLOUT,), f"{ENV_CAUSE}: {outcome}")


@pytest.mark.parametrize("data", [FROZEN, LIVE])
def test_no_pods_need_no_action(data: dict[str, str]) -> None:
    """A consumer that is scaled to zero has nothing to do; it settles."""
    plan = planned(opted_in("Deployment", ENV_AND_FILES, {"rereads": "true"}, replicas=0), data)
    assert plan.actions == ()
    assert plan.settles
    assert plan.reason.endswith(": no pods are running; new pods read the new content")


@pytest.mark.parametrize(
    ("kind", "said", "options", "actions", "outcome"),
    [
        ("CronJob", {}, {}, (), "the next run reads the new content"),
        (
            "CronJob",
            {"on-change": "run-now"},
            {},
            (Action(ActionType.RUN_NOW),),
            "starting a Job",
        ),
        (
            "CronJob",
            {"on-change": "run-now"},
            {"suspend": True},
            (),
            "the next run reads the new content (suspended)",
        ),
        (
            "CronJob",
            {"on-change": "run-now", "strategy": "nudge"},
            {},
            (),
            "the next run reads the new content",
        ),
        ("Job", {}, {}, (NOTIFY,), "reported only, since a Job has no rollout"),
        (
            "Job",
            {"on-change": "recreate", "strategy": "nudge"},
            {},
            (NOTIFY,),
            "reported only, since a Job has no rollout",
        ),
        (
            "Job",
            {"on-change": "recreate"},
            {"suspend": True},
            (),
            "no pods are running; new pods read the new content",
        ),
        (
            "Job",
            {},
            {"ended": "Complete"},
            (),
            "the Job has finished; nothing reads the new content",
        ),
        (
            "Job",
            {"on-change": "recreate"},
            {"ended": "Failed"},
            (Action(ActionType.RECREATE),),
            "recreating the finished Job",
        ),
        (
            "Job",
            {"on-change": "recreate", "agent": "restart=supervised"},
            {},
            (Action(ActionType.NUDGE),),
            "the agent restarts the application in place",
        ),
        (
            "Job",
            {"on-change": "recreate"},
            {},
            (Action(ActionType.RECREATE),),
            "recreating the Job",
        ),
        ("Pod", {}, {}, (NOTIFY,), "reported only, since a Pod has no rollout"),
        ("Pod", {"on-change": "evict"}, {}, (Action(ActionType.EVICT),), "evicting the Pod"),
        ("ReplicaSet", {}, {}, (NOTIFY,), "reported only, since a ReplicaSet has no rollout"),
        (
            "ReplicaSet",
            {},
            {"replicas": 0},
            (),
            "no pods are running; new pods read the new content",
        ),
        (
            "CronJob",
            {"on-change": "run-now", "strategy": "notify"},
            {},
            (NOTIFY,),
            "reported only, since the strategy is notify",
        ),
    ],
)
def test_kinds_without_rollout_need_opt_in(
    kind: str,
    said: dict[str, str],
    options: dict[str, Any],
    actions: tuple[Action, ...],
    outcome: str,
) -> None:
    """What has no rollout is reported, unless it opted in to more."""
    plan = planned(opted_in(kind, ENV, said, **options), FROZEN)
    assert (plan.actions, plan.reason) == (actions, f"{ENV_CAUSE}: {outcome}")


@pytest.mark.parametrize(
    ("kind", "generation", "facts", "acts"),
    [
        ("CronJob", 2, {}, True),
        ("Deployment", 2, {"starts": ()}, False),
        ("Pod", 2, {"starts": ()}, False),
    ],
)
def test_cron_job_edit_starts_no_pods(
    kind: str, generation: int, facts: dict[str, Any], acts: bool
) -> None:
    """Elsewhere a generation that moved on may mean new pods, and without pods nothing is stale."""
    said = {"on-change": {"CronJob": "run-now", "Pod": "evict"}.get(kind, "")}
    moved = opted_in(kind, ENV, said, generation=generation)
    assert bool(planned(moved, FROZEN, applied_generation=1, **facts).actions) is acts


def test_cron_job_whose_runs_exclude_each_other_waits() -> None:
    """Nothing is recorded as applied until the current run has ended."""
    for concurrency, active, waits in (
        ("Forbid", 1, True),
        ("Replace", 1, True),
        ("Allow", 1, False),
        ("Forbid", 0, False),
    ):
        who = opted_in(
            "CronJob", ENV, {"on-change": "run-now"}, concurrency=concurrency, active=active
        )
        plan = planned(who, FROZEN)
        assert bool(plan.actions) is not waits, (concurrency, active)
        assert plan.settles is not waits
        assert (plan.requeue_after is not None) is waits
        assert plan.reason.endswith("(concurrencyPolicy)") is waits


def test_live_change_is_a_run_too() -> None:
    """The pods of a CronJob read their files at their start, whatever may rewrite them later."""
    plan = planned(opted_in("CronJob", FILES, {"on-change": "run-now", "rereads": "true"}), LIVE)
    assert plan.actions == (Action(ActionType.RUN_NOW),)


@pytest.mark.parametrize("kind", ["Job", "Pod", "ReplicaSet"])
def test_kinds_without_rollout_take_live_changes(kind: str) -> None:
    """Files of running pods are refreshed whatever their kind."""
    plan = planned(opted_in(kind, FILES, {"rereads": "true"}), LIVE)
    outcome = "refreshing mounted files; the application re-reads them"
    assert (plan.actions, plan.reason) == ((NUDGE,), f"{FILE_CAUSE}: {outcome}")


def test_named_source_rolls() -> None:
    """How a source is read that is named and not referenced is unknown, so pods are replaced."""
    plan = planned(opted_in("Deployment", "", {"follow": "configmap/app"}), LIVE)
    assert plan.actions == (ROLLOUT,)
    assert plan.reason == ("ConfigMap shop/app app.yaml changed (named by annotation): rolling out")


def test_image_pull_secrets_change_nothing() -> None:
    """A consumer whose only reference is a credential follows nothing."""
    plan = planned(
        opted_in("Deployment", "{containers: [{name: web}], imagePullSecrets: [{name: r}]}"), FROZEN
    )
    assert (plan.actions, plan.reason) == ((), "uses no source that it follows")


# -- words ------------------------------------------------------------------------------------


def test_reason_names_three_data_keys_and_one_place() -> None:
    """A reason names three data keys and the first place, and counts the others."""
    spec = """
        containers:
        - {name: web, envFrom: [{configMapRef: {name: app}}]}
        - {name: log, envFrom: [{configMapRef: {name: app}}]}
    """
    data = {"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}
    plan = planned(opted_in("Deployment", spec), data)
    assert plan.reason == (
        "ConfigMap shop/app LEVEL, a, app.yaml and 5 more changed "
        "(containers[web].envFrom[0] and 1 more place): rolling out"
    )


def test_place_that_decides_comes_first() -> None:
    """A data key in both uses is explained by the one that needs the action."""
    reader = "- name: web\n      envFrom: [{configMapRef: {name: app}}]\n"
    spec = FILES.replace("- name: web\n", reader)
    plan = planned(opted_in("Deployment", spec, {"rereads": "true"}), FROZEN)
    assert plan.reason == (
        "ConfigMap shop/app LEVEL changed "
        "(containers[web].envFrom[0] and 1 more place): rolling out"
    )


def test_place_of_the_application_comes_before_that_of_an_agent() -> None:
    """An injected agent mounts what the application mounts, and is an init container."""
    mount = "volumeMounts: [{name: files, mountPath: /etc/app}]"
    spec = f"""
        initContainers:
        - {{name: hotmap-agent, restartPolicy: Always, {mount}}}
        containers:
        - {{name: web, {mount}}}
        volumes: [{{name: files, configMap: {{name: app}}}}]
    """
    plan = planned(opted_in("Deployment", spec, {"rereads": "true"}), LIVE)
    assert plan.reason.startswith(
        "ConfigMap shop/app app.yaml changed "
        "(volumes[files] at containers[web]:/etc/app and 1 more place): refreshing"
    )


def test_unobserved_change_is_explained_by_its_use() -> None:
    """After a downtime the data keys are not known; the rule's own words and the place are."""
    plan = planned(opted_in("Deployment", ENV), FROZEN, seen=False)
    assert plan.reason == ("ConfigMap shop/app changed (containers[web].env[LEVEL]): rolling out")


def test_unseen_files_are_explained_as_well() -> None:
    """The reason for new pods stands once, also when the data keys are not known."""
    plan = planned(opted_in("Deployment", FILES), LIVE, seen=False)
    assert plan.reason == (
        "ConfigMap shop/app changed in mounted files "
        "(volumes[config] at containers[web]:/etc/app): "
        "rolling out, since the application is not known to reload files"
    )


def test_deleted_source_is_reported() -> None:
    """The files of a deleted optional source are refreshed away."""
    spec = FILES.replace("{name: app}", "{name: app, optional: true}")
    plan = planned(opted_in("Deployment", spec, {"rereads": "true"}), None)
    assert plan.actions == (NUDGE,)
    assert plan.reason == (
        "ConfigMap shop/app was deleted (volumes[config] at containers[web]:/etc/app): "
        "refreshing mounted files; the application re-reads them"
    )


# -- verdicts without actions -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "settles", "warning", "requeue_after"),
    [
        (Verdict.UP_TO_DATE, True, False, None),
        (Verdict.ADOPT, True, False, None),
        (Verdict.WAIT, False, False, 1.0),
        (Verdict.CHECK_PODS, False, False, 1.0),
        (Verdict.HOLD, True, True, None),
    ],
)
def test_verdict_without_actions_gives_its_reason(
    verdict: Verdict, settles: bool, warning: bool, requeue_after: float | None
) -> None:
    """Nothing is done, for the judgement's reason; waiting comes back, holding warns."""
    plan = make_plan(opted_in("Deployment", ENV), Policy(), _assess(verdict), changed={})
    assert (plan.verdict, plan.actions, plan.reason) == (verdict, (), "because")
    assert (plan.settles, plan.warning, plan.requeue_after) == (settles, warning, requeue_after)


def test_early_window_records_nothing_as_applied() -> None:
    """Files are refreshed meanwhile, but nothing counts as applied, and it is checked again."""
    who = opted_in("Deployment", FILES, {"rereads": "true"})
    snapshots = take_snapshots(who.uses, sources(config_map("app", LIVE)), KEY)
    finding = Finding(snapshots[0], Verdict.LIVE, "changed")
    assessment = _assess(Verdict.LIVE)._replace(findings=(finding,), early=True)
    plan = make_plan(who, read_policy(who), assessment, changed={})
    assert plan.actions == (NUDGE,)
    assert (plan.settles, plan.requeue_after) == (False, 1.0)


@pytest.mark.parametrize(("data", "confirms"), [(A, True), (UNUSED, False), (FROZEN, False)])
def test_confirming_plan_is_marked(data: dict[str, str], confirms: bool) -> None:
    """A plan that only confirms the record is distinguished from one with a reason."""
    assert planned(opted_in("Deployment", ENV), data).confirms is confirms


def _assess(verdict: Verdict) -> Assessment:
    return Assessment(verdict, "because", ())
