"""Restarts in place go a few pods at a time, and stop at the first that does not come back."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from hotmap.core.decide.disruption_budget import DisruptionBudget
from hotmap.core.decide.restart_wave import RestartPod, next_wave
from hotmap.core.model.consumer_conversion import resolve_max_unavailable


def pods(text: str) -> list[RestartPod]:
    """Read pods from words: `r` Ready or `n` not, and what is known of the restart.

    `r` waits; `r+` was told long ago and cannot be asked, `r-` a moment ago; `r!` says that it has
    loaded a probe's period ago, `r?` that it has not; `r#` failed, and `r~` does and is retried,
    for a long time `r=`.
    """
    kinds: dict[str, tuple[Any, ...]] = {
        "": (None, None, ""),
        "+": (60.0, None, ""),
        "-": (3.0, None, ""),
        "!": (12.0, True, ""),
        "?": (60.0, False, ""),
        "#": (3.0, False, "its agent restarted the previous environment"),
        "~": (60.0, False, "the process did not load the content", True),
        "=": (80.0, False, "the process did not load the content", True),
    }
    return [
        RestartPod(f"{number}", word[0] == "r", *kinds[word[1:]])
        for number, word in enumerate(text.split())
    ]


@pytest.mark.parametrize(
    ("state", "limit", "told", "stopped"),
    [
        ("", 1, "", False),
        ("r", 1, "0", False),
        ("r r r", 1, "0", False),
        ("r r r", 2, "0 1", False),
        ("r r r", 9, "0 1 2", False),
        ("r r r", 0, "0", False),
        ("r- r r", 1, "", False),
        ("r- r r", 2, "1", False),
        ("n- r r", 1, "", False),
        ("n! r r", 1, "", False),
        ("r! r r", 1, "1", False),
        ("r+ r r", 1, "1", False),
        ("r? r r", 1, "", False),
        ("r+ r! r", 1, "2", False),
        ("r! r! r!", 1, "", False),
        # A pod that is down serves no requests: it is nudged at once, and counts.
        ("n r r", 1, "0", False),
        ("r n r", 2, "1 0", False),
        ("n n n", 1, "0 1 2", False),
        ("n- n r", 1, "1", False),
        # A failure stops it, whatever the budget is.
        ("r# r r", 3, "", True),
        ("r! n# r n", 3, "", True),
        ("r! r#", 1, "", False),
        # A process that has just started may not be ready for a reload yet.
        ("r~ r r", 1, "", False),
        ("r= r r", 1, "", True),
    ],
)
def test_next_wave_selects_pods_within_max_unavailable(
    state: str, limit: int, told: str, stopped: bool
) -> None:
    """The table: pods, maxUnavailable, which are told, and whether the wave has stopped."""
    wave = next_wave(pods(state), max_unavailable=limit)
    assert " ".join(wave.names) == told
    assert wave.stopped is stopped


def test_wave_says_who_waits_and_why() -> None:
    """One sentence for Events, log and `hotmap why`."""
    assert next_wave(pods("r! r r r"), max_unavailable=1).reason == (
        "2 of 4 pods wait to restart; 1 restarting or not ready, maxUnavailable is 1"
    )
    assert next_wave(pods("r! r# r r"), max_unavailable=1).reason == (
        "Pod 1 its agent restarted the previous environment: 2 of 4 pods keep running with the "
        "previous content"
    )
    late = RestartPod("web-1", False, 601.0)
    reason = next_wave([late, RestartPod("web-2", True, None)], max_unavailable=1).reason
    assert reason.startswith(
        "Pod web-1 is not ready 600s after it was requested to restart: 1 of 2"
    )


def test_no_more_pods_are_unavailable_than_permitted() -> None:
    """In all states of four pods: what is told and Ready fits beside what is not available."""
    for words in product(("r", "n", "r+", "r-", "n-", "r!", "r?"), repeat=4):
        state = pods(" ".join(words))
        for limit in (1, 2, 3):
            names = next_wave(state, max_unavailable=limit).names
            told = [pod for pod in state if pod.name in names]
            assert all(pod.since_request is None for pod in told)
            disturbed = sum(pod.ready for pod in told)
            down = sum(
                not pod.ready or (pod.since_request is not None and not pod.is_back)
                for pod in state
            )
            assert disturbed <= max(0, limit - down)


@pytest.mark.parametrize(
    ("value", "default", "wanted", "expected"),
    [
        (2, 1, 5, 2),
        (0, 1, 5, 1),
        ("25%", 1, 5, 1),
        ("50%", 1, 5, 2),
        ("100%", 1, 5, 5),
        ("9999999999999999%", 1, 5, 5),
        (None, "25%", 12, 3),
        (None, 1, 12, 1),
        ("many", "25%", 8, 2),
        ("-1%", 1, 8, 1),
    ],
)
def test_max_unavailable_is_resolved_as_for_a_rolling_update(
    value: int | str | None, default: int | str, wanted: int, expected: int
) -> None:
    """Percentages are rounded down; nothing is below one pod."""
    assert resolve_max_unavailable(value, default=default, wanted=wanted) == expected


@pytest.mark.parametrize(
    ("state", "allowed", "told", "reason"),
    [
        (
            "r r r",
            (1,),
            "0",
            "2 of 3 pods wait to restart; 1 restarting or not ready, "
            "PodDisruptionBudget b0 permits no more",
        ),
        ("r r r", (3,), "0 1 2", ""),
        ("r r r", (3, 1), "0", "b1 permits no more"),
        # About to restart and still Ready: the budget does not know it yet.
        ("r- r r", (1,), "", "b0 permits no more"),
        ("r- r r", (2,), "1", "b0 permits no more"),
        # Not Ready: the budget counts it.
        ("n- r r", (0,), "", "b0 permits no more"),
        ("r! r r", (1,), "1", "b0 permits no more"),
        ("n r r", (0,), "0", "b0 permits no more"),
        ("n n n", (0,), "0 1 2", ""),
    ],
)
def test_budgets_limit_a_wave(state: str, allowed: tuple[int, ...], told: str, reason: str) -> None:
    """The table: pods, what each budget allows, which pods are told, and why the others wait."""
    names = frozenset(pod.name for pod in pods(state))
    budgets = [
        DisruptionBudget(f"b{number}", names, each, required=1, expected=3)
        for number, each in enumerate(allowed)
    ]
    wave = next_wave(pods(state), max_unavailable=3, budgets=budgets)
    assert " ".join(wave.names) == told
    assert wave.reason.endswith(reason)
    assert bool(wave.reason) is bool(reason)
    assert not wave.forbidden


def test_budget_limits_only_the_pods_that_it_selects() -> None:
    """A second pod of the workload, which no budget selects, restarts meanwhile."""
    budget = DisruptionBudget("b", frozenset({"0", "2"}), 0, required=1, expected=2)
    wave = next_wave(pods("r r r"), max_unavailable=3, budgets=[budget])
    assert wave.names == ("1",)


def test_budget_that_requires_every_pod_forbids_the_wave() -> None:
    """Nothing changes that by itself, so it is an Event."""
    budget = DisruptionBudget("all", frozenset("012"), 0, required=3, expected=3)
    wave = next_wave(pods("r r r"), max_unavailable=1, budgets=[budget])
    assert wave == (
        (),
        "PodDisruptionBudget all requires 3 healthy pods of 3: 3 of 3 pods keep running with the "
        "previous content",
        False,
        True,
    )
