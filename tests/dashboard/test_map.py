"""What the map shows, in which order, and what is grouped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dashboard.documents import document, source, workload

from hotmap.core.status.consumer import State
from hotmap.core.status.status_document import WorkloadSummary
from hotmap.dashboard.map import STATES, View, build_map, hide_states, tone_of


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def drawn(workloads: list[WorkloadSummary], **view: Any) -> dict[str, Any]:
    return build_map(document(workloads), View(**view))


def test_every_state_has_a_tone() -> None:
    """A state that a newer controller has is not drawn as good."""
    assert set(STATES) == {state.value for state in State}
    assert [state for state, tone in STATES.items() if tone == "good"] == ["current"]
    assert tone_of("unheard") == tone_of("unfollowed") == "warn"


def test_trouble_is_shown_first() -> None:
    """In the order of the table of states; then workloads with the same source together."""
    states = list(STATES)
    shown = drawn([workload(state, state) for state in reversed(states)])
    assert [item["state"] for item in shown["workloads"]] == states
    assert [entry["state"] for entry in shown["found"]] == states

    waiting = [workload("a", "waiting"), workload("b", "waiting", action_required=True)]
    assert names(drawn(waiting)["workloads"]) == ["deployment/b", "deployment/a"]

    shown = drawn([workload("a", "current", "y"), workload("b", "current", "x"),
                   workload("c", "current", "y"), workload("d", "current", "x", "z")])  # fmt: skip
    assert names(shown["workloads"]) == [f"deployment/{name}" for name in "bdac"]
    assert names(shown["sources"]) == ["configmap/x", "configmap/z", "configmap/y"]


def test_row_has_what_is_known_of_a_workload() -> None:
    """With the ids of its sources, which the lines connect."""
    login = source("login", "Secret")
    held = workload("web", "held", login, behind=2, reason="why")
    (row,) = drawn([held])["workloads"]
    assert row == {
        "id": "Deployment/shop/web",
        "name": "deployment/web",
        "namespace": "shop",
        "state": "held",
        "tone": "bad",
        "reason": "why",
        "pods": {"count": 3, "behind": 2, "text": "2 of 3 pods behind"},
        "sources": ["Secret/shop/login"],
    }


@pytest.mark.parametrize(
    ("state", "fields", "text"),
    [
        ("current", {}, "3 pods"),
        ("current", {"pod_count": 0}, "no pods"),
        ("current", {"kind": "Pod", "pod_count": 0}, "1 pod"),
        ("waiting", {"behind": 1}, "1 of 3 pods behind"),
        ("waiting", {"pod_count": 1, "behind": 2}, "2 of 2 pods behind"),
        ("unknown", {}, "3 pods"),
        ("waiting", {"pod_count": 0}, ""),
        ("delivered", {"pod_count": 1200}, "1,200 pods"),
    ],
)
def test_pods_are_counted(state: str, fields: dict[str, Any], text: str) -> None:
    """While a rollout runs, its own controller may count fewer pods than are behind."""
    (row,) = drawn([workload("web", state, **fields)])["workloads"]
    assert row["pods"]["text"] == text


@pytest.mark.parametrize(
    ("state", "fields", "note", "tone"),
    [
        ("current", {}, "1 of 1 current", "good"),
        ("waiting", {}, "0 of 1 current", "busy"),
        ("current", {"exists": False}, "does not exist", "warn"),
        ("current", {"exists": False, "visible": False}, "not visible to hotmap", "warn"),
    ],
)
def test_source_has_a_note(state: str, fields: dict[str, Any], note: str, tone: str) -> None:
    """How many of its workloads are current, or that it is missing."""
    (item,) = drawn([workload("web", state, source("app", **fields))])["sources"]
    assert (item["note"], item["tone"]) == (note, tone)


def test_source_counts_workloads_that_the_filter_hides() -> None:
    """Its note must not change with what is shown."""
    shown = drawn([workload("a", "current", "x"), workload("b", "held", "x")], filter="a x")
    assert shown["sources"][0]["note"] == "1 of 2 current"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "abc"),
        ("deployment/a", "a"),
        ("SECRET", "b"),
        ("deploy", "ab"),
        ("statefulset/c", "c"),
        ("configmap/x deploy", "a"),
        ("pay", "c"),
        ("nosuch", ""),
    ],
)
def test_filter_is_by_name_or_kind_of_workload_or_source(text: str, found: str) -> None:
    """Each word must be found; the counts are those of what matches."""
    workloads = [
        workload("a", "current", "x"),
        workload("b", "current", source("y", "Secret")),
        workload("c", "current", kind="StatefulSet", namespace="pay"),
    ]
    shown = drawn(workloads, filter=text)
    assert sorted(item["name"][-1] for item in shown["workloads"]) == list(found)
    assert sum(entry["count"] for entry in shown["found"]) == len(found)
    assert shown["total"] == 3


def test_states_select_workloads_and_leave_their_counts() -> None:
    """The counts are the buttons with which others are selected."""
    workloads = [workload("a"), workload("b", "held"), workload("c", "waiting")]
    shown = drawn(workloads, states=frozenset({"held"}))
    assert names(shown["workloads"]) == ["deployment/b"]
    assert [(entry["state"], entry["count"]) for entry in shown["found"]] == [
        ("held", 1),
        ("waiting", 1),
        ("current", 1),
    ]


def many(current: int, waiting: int) -> list[WorkloadSummary]:
    return [
        *(workload(f"good-{number}", "current", "app", "tls") for number in range(current)),
        *(workload(f"busy-{number}", "waiting", "app", behind=1) for number in range(waiting)),
    ]


@pytest.mark.parametrize(
    ("current", "waiting", "rows", "groups"),
    [
        (40, 0, 40, []),
        (30, 10, 40, []),
        (1973, 0, 40, ["1,933 workloads"]),
        (1973, 27, 27, ["1,973 workloads"]),
        (1, 41, 40, ["1 workload", "1 workload"]),
        (1900, 100, 40, ["60 workloads", "1,900 workloads"]),
    ],
)
def test_many_workloads_are_grouped(
    current: int, waiting: int, rows: int, groups: list[str]
) -> None:
    """What is current is one group as soon as not all of it fits."""
    shown = drawn(many(current, waiting))["workloads"]
    singles = [item for item in shown if "group" not in item]
    assert len(singles) == rows
    assert names([item for item in shown if "group" in item]) == groups
    assert [item for item in shown if "group" in item] == shown[rows:]


def test_group_has_the_pods_and_sources_of_its_workloads() -> None:
    """Sources that only groups use are one row, to which the group is connected."""
    shown = drawn(many(100, 50))
    waiting, current = shown["workloads"][-2:]
    assert waiting["pods"]["text"] == "10 of 30 pods behind"
    assert current["pods"]["text"] == "300 pods"
    assert current["sources"] == ["ConfigMap/shop/app", "more sources"]
    assert names(shown["sources"]) == ["configmap/app", "1 more source"]


def test_selected_workload_is_not_grouped() -> None:
    """A link to it shows it."""
    shown = drawn(many(100, 1), selected="Deployment/shop/good-7")
    assert names(shown["workloads"]) == [
        "deployment/busy-0",
        "deployment/good-7",
        "99 workloads",
    ]


def test_number_of_sources_is_bounded() -> None:
    """A tenant can use hundreds in one workload; the further ones are one row."""
    shown = drawn([workload("web", "current", *(f"s-{number}" for number in range(300)))])
    assert len(shown["sources"]) == 201
    assert shown["sources"][-1]["name"] == "100 more sources"
    assert len(shown["workloads"][0]["sources"]) == 201


def test_lost_connection_hides_every_state() -> None:
    """Rows keep their order; no word, tone or number says what may not be so any more."""
    workloads = [workload("a", "held", "x", behind=1), workload("b", "current", "x", "y")]
    shown = drawn(workloads)
    hidden = hide_states(shown)
    assert names(hidden["workloads"]) == names(shown["workloads"])
    assert names(hidden["sources"]) == names(shown["sources"])
    assert hidden["found"] == []
    text = str(hidden)
    for word in ("current", "held", "good", "bad", "behind'", "reason of"):
        assert word not in text.replace("'behind': 0", "").replace("'behind': ''", "")
    assert {item["state"] for item in hidden["workloads"]} == {"unknown"}


WORKLOADS = st.lists(
    st.builds(
        lambda state, sources, behind: (state, sources, behind),
        st.sampled_from([*STATES, "unheard"]),
        st.sets(st.sampled_from("uvwxyz"), max_size=4),
        st.integers(0, 3),
    ),
    max_size=60,
)


@given(WORKLOADS, st.integers(1, 60), st.sets(st.sampled_from(list(STATES)), max_size=3))
def test_no_workload_is_left_out(
    drawn_from: list[tuple[str, set[str], int]], rows: int, states: set[str]
) -> None:
    """Each that matches is a row or counted in a group; each line ends at a source."""
    workloads = [
        workload(f"w-{number}", state, *sorted(sources), behind=behind)
        for number, (state, sources, behind) in enumerate(drawn_from)
    ]
    shown = drawn(workloads, rows=rows, states=frozenset(states))
    counted = sum(
        int(item["name"].split()[0]) if "group" in item else 1 for item in shown["workloads"]
    )
    assert counted == sum(not states or state in states for state, _, _ in drawn_from)
    assert sum("group" not in item for item in shown["workloads"]) <= rows
    known = {item["id"] for item in shown["sources"]}
    assert {name for item in shown["workloads"] for name in item["sources"]} == known
    good = {item["id"] for item in shown["workloads"] if item["tone"] == "good"}
    assert good == {item["id"] for item in shown["workloads"] if item["state"] == "current"}
