"""Targets of directories, compared by order, or exactly where payload digests are announced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.agents import Agent, PodFile, Volume, agent, eventually, webhook

from hotmap.agent.decide.announcement import (
    Comparison,
    overall_state,
    parse_announcement,
)
from hotmap.agent.watch.detector import Detector
from hotmap.core.payload import Item, configmap_payload, downward_map
from hotmap.core.payload_digest import EMPTY, file_digest, payload_digest
from hotmap.core.target import Target
from hotmap.volume.atomic_writer import AtomicWriter


@given(st.text(), st.integers(0, 10**9))
def test_target_is_found_among_other_annotations(other: str, sequence: int) -> None:
    """Whatever else the pod is annotated with, the target is read from its own line."""
    text = downward_map({"a": other, "hotmap.dev/target": f"{sequence}/live/frozen", "z": other})
    assert parse_announcement(text) == Target(sequence, "live", "frozen")
    assert parse_announcement(downward_map({"a": other})) is None


def test_payload_digests_are_the_last_part_of_the_target() -> None:
    """One for each volume, with dots between; parts of a later form are left alone."""

    def payloads(target: str) -> tuple[str, ...]:
        found = parse_announcement(f'hotmap.dev/target="{target}"')
        assert found is not None
        return found.payloads

    assert payloads("1/a/b") == payloads("1/a/b/") == ()
    assert payloads("1/a/b/x") == ("x",)
    assert payloads("1/a/b/x.y/later") == ("x", "y")


def relations(
    comparison: Comparison, live: str | None, *, sequence: int = 1, **digests: str
) -> dict[str, str]:
    """Compare where no payload digest is announced; gives relations by directory."""
    announcement = None if live is None else Target(sequence, live, "frozen")
    found = comparison.compare(announcement, digests, {})
    assert {item.evidence for item in found.values()} <= {"" if live is None else "order"}
    return {directory: item.state for directory, item in found.items()}


def test_target_state_follows_the_order_of_changes() -> None:
    """Whichever comes first waits for the other; an edit that is taken back is recognised."""
    comparison = Comparison()
    comparison.compare(None, {"d": "zero"}, {})
    comparison.compare(Target(1, "A", "f", (), "0", "f"), {"d": "zero"}, {})
    for sequence, live, digest, relation, is_assumed in [
        (2, "A", "one", "matched", True),
        (3, "B", "one", "not yet projected", False),
        (3, "B", "two", "matched", False),
        (3, "B", "three", "not yet announced", False),
        (3, "B", "two", "matched", False),
        (4, "A", "two", "not yet projected", False),
        (4, "A", "one", "matched", False),
        (5, "B", "one", "not yet projected", False),
        (5, "B", "two", "matched", False),
        (5, "B", "three", "not yet announced", False),
        (6, "C", "three", "matched", True),
    ]:
        found = relations(comparison, live, sequence=sequence, d=digest)
        assert found == {"d": relation}, (live, digest)
        if relation == "matched":
            assert comparison.is_assumed is is_assumed, (live, digest)


@pytest.mark.parametrize("missed", ["not read", "replaced before its files came"])
def test_files_of_a_missed_announcement_are_not_evidence(missed: str) -> None:
    """Two edits within a moment: the first files may come after the second announcement."""
    comparison = Comparison()
    comparison.compare(None, {"d": "one"}, {})
    comparison.compare(Target(1, "B", "f", (), "A", "f"), {"d": "one"}, {})
    comparison.compare(Target(1, "B", "f", (), "A", "f"), {"d": "two"}, {})
    if missed != "not read":
        relations(comparison, "C", sequence=2, d="two")
    assert relations(comparison, "D", sequence=3, d="two") == {"d": "not yet projected"}
    assert relations(comparison, "D", sequence=3, d="of C") == {"d": "matched"}
    assert comparison.is_assumed
    assert relations(comparison, "D", sequence=3, d="of D") == {"d": "not yet announced"}
    # The kubelet has synced the pod again: the files of the next announcement are known again.
    assert relations(comparison, "D", sequence=4, d="of D") == {"d": "matched"}
    assert comparison.is_assumed
    assert relations(comparison, "E", sequence=5, d="of D") == {"d": "not yet projected"}
    assert relations(comparison, "E", sequence=5, d="of E") == {"d": "matched"}
    assert not comparison.is_assumed


def test_files_of_an_edit_that_was_not_announced_are_not_evidence() -> None:
    """Two edits before the first announcement, and a kubelet that is late with both."""
    comparison = Comparison()
    comparison.compare(None, {"d": "one"}, {})
    announced = Target(2, "C", "f", (), "A", "f")
    assert comparison.compare(announced, {"d": "one"}, {})["d"].state == "not yet projected"
    assert comparison.compare(announced, {"d": "of B"}, {})["d"].state == "matched"
    assert comparison.is_assumed


def test_files_before_their_announcement_are_not_evidence() -> None:
    """They may be those of an edit before it that was never announced."""
    comparison = Comparison()
    comparison.compare(None, {"d": "one"}, {})
    first = Target(1, "B", "f", (), "A", "f")
    assert comparison.compare(first, {"d": "two"}, {})["d"].state == "matched"
    assert comparison.is_assumed


def test_repeated_announcement_without_other_files_is_assumed_to_match() -> None:
    """What changed is in no watched directory: nothing will come."""
    comparison = Comparison()
    comparison.compare(None, {"d": "one"}, {})
    comparison.compare(Target(1, "B", "f", (), "A", "f"), {"d": "one"}, {})
    repeated = Target(2, "B", "f", (), "A", "f")
    assert comparison.compare(repeated, {"d": "one"}, {})["d"].state == "matched"
    assert comparison.is_assumed
    assert relations(comparison, "C", sequence=3, d="one") == {"d": "not yet projected"}
    assert relations(comparison, "C", sequence=3, d="two") == {"d": "matched"}
    assert not comparison.is_assumed


def test_repetition_makes_only_the_next_announcement_certain() -> None:
    """What was repeated is known; the files that follow an announcement too late are not."""
    comparison = Comparison()
    comparison.compare(None, {"d": "one"}, {})
    for sequence in (1, 2):
        comparison.compare(Target(sequence, "B", "f", (), "A", "f"), {"d": "one"}, {})
    # They came before their announcement, so they may be of an edit before it.
    assert relations(comparison, "C", sequence=3, d="two") == {"d": "matched"}
    assert comparison.is_assumed
    assert relations(comparison, "D", sequence=4, d="two") == {"d": "not yet projected"}
    assert relations(comparison, "D", sequence=4, d="three") == {"d": "matched"}
    assert comparison.is_assumed


@given(st.data())
def test_order_is_certain_only_of_the_announced_files(data: st.DataObject) -> None:
    """A kubelet that projects every edit late, and announcements of which any may be missed.

    An edit that another one follows before the pods are told of it is not announced; the controller
    leaves out a number for such edits.
    """
    comparison = Comparison()
    comparison.compare(None, {"d": "0"}, {})
    edited = projected = announced = 0
    sequence = 0
    shown = Target(0, "0", "f")
    for step in data.draw(st.lists(st.sampled_from("eanrp"), max_size=30)):
        if step == "e":
            edited += 1
        elif step in "an" and announced != edited:
            # A nudge; the agent reads it, or misses it.
            before = str(announced) if sequence == 0 else ""
            sequence += 1 if edited == announced + 1 else 2
            announced = edited
            shown = Target(sequence, str(announced), "f", (), before, "f" if before else "")
        elif step == "r" and sequence and projected == announced:
            sequence += 1  # two seconds later, so its kubelet has followed
            shown = shown._replace(sequence=sequence)
        elif step == "p":
            projected = data.draw(st.integers(projected, announced))
        if sequence and step != "n":
            state = comparison.compare(shown, {"d": str(projected)}, {})["d"].state
            if state == "matched" and not comparison.is_assumed:
                assert int(shown.live) == projected


def test_announcement_before_the_first_reading_matches_it() -> None:
    """At its start the agent may read the announcement first; it does not wait for another."""
    comparison = Comparison()
    assert relations(comparison, "A") == {}
    assert relations(comparison, "A", d="one") == {"d": "matched"}


def test_only_the_directory_that_changed_first_is_not_announced() -> None:
    """Files that changed before their announcement are distinguished from the others."""
    comparison = Comparison()
    relations(comparison, "A", one="1", two="1")
    assert relations(comparison, "A", one="1", two="2") == {
        "one": "matched",
        "two": "not yet announced",
    }
    assert relations(comparison, "B", one="1", two="2") == {"one": "matched", "two": "matched"}
    assert relations(comparison, "C", one="1", two="2") == {
        "one": "not yet projected",
        "two": "not yet projected",
    }


def exact(
    comparison: Comparison, live: str, announced: str, **payloads: str
) -> dict[str, tuple[str, str]]:
    """Compare where payload digests are announced; each directory's own digest is its payload's."""
    announcement = Target(1, live, "frozen", tuple(announced.split()))
    found = comparison.compare(announcement, payloads, payloads)
    return {directory: (item.state, item.evidence) for directory, item in found.items()}


def test_payload_digests_are_compared_exactly() -> None:
    """What is announced for another source does not make this directory wait, and a stale one does.

    The Secret's directory is among no digests, so order decides on it.
    """
    comparison = Comparison()
    assert exact(comparison, "A", "c1", configmap="c1", secret="s1") == {
        "configmap": ("matched", "exact"),
        "secret": ("matched", "order"),
    }
    assert exact(comparison, "B", "c1", configmap="c1", secret="s1") == {
        "configmap": ("matched", "exact"),
        "secret": ("not yet projected", "order"),
    }
    assert exact(comparison, "B", "c1", configmap="c1", secret="s2") == {
        "configmap": ("matched", "exact"),
        "secret": ("matched", "order"),
    }
    assert exact(comparison, "C", "c2", configmap="c1", secret="s2")["configmap"] == (
        *("not yet projected", "exact"),
    )
    # Something else than what was announced has arrived: order would have taken it for that.
    assert exact(comparison, "C", "c2", configmap="c9", secret="s2")["configmap"] == (
        *("not yet projected", "exact"),
    )
    assert exact(comparison, "C", "c2", configmap="c2", secret="s2") == {
        "configmap": ("matched", "exact"),
        "secret": ("matched", "order"),
    }
    assert exact(comparison, "C", "c2", configmap="c3", secret="s2")["configmap"] == (
        *("not yet announced", "exact"),
    )


def test_secret_with_the_content_of_a_config_map_is_compared_by_order() -> None:
    """Its digest was announced for the other one, and is not once they differ."""
    comparison = Comparison()
    first = Target(1, "aa", "f", ("same",))
    comparison.compare(first, {"map": "1", "secret": "1"}, {"map": "same", "secret": "same"})
    second, payloads = Target(2, "bb", "f", ("same",)), {"map": "same", "secret": "other"}
    states = comparison.compare(second, {"map": "1", "secret": "2"}, payloads)
    assert states["secret"].evidence == "order"
    third = Target(3, "cc", "f", ("new",))
    comparison.compare(third, {"map": "1", "secret": "2"}, payloads)
    states = comparison.compare(
        third, {"map": "2", "secret": "2"}, {"map": "new", "secret": "other"}
    )
    assert (states["map"].state, states["map"].evidence) == ("matched", "exact")
    assert (states["secret"].state, states["secret"].evidence) == ("matched", "order")


def test_empty_payload_is_not_evidence() -> None:
    """An empty Secret has the digest of any empty payload; its next content is judged by order."""
    comparison = Comparison()
    assert exact(comparison, "A", EMPTY, d=EMPTY) == {"d": ("matched", "exact")}
    assert exact(comparison, "A", EMPTY, d="s1") == {"d": ("not yet announced", "order")}


def test_overall_state_is_the_worst() -> None:
    """The pod as a whole is matched only when every directory is."""
    comparison = Comparison()
    comparison.compare(Target(1, "A", "f", ("c1",)), {"c": "1", "s": "1"}, {"c": "c1"})
    found = comparison.compare(Target(2, "B", "f", ("c1",)), {"c": "1", "s": "1"}, {"c": "c1"})
    assert overall_state(found.values()) == "not yet projected"
    assert overall_state([]) == "none"


def test_payload_digest_is_as_documented() -> None:
    """Written down from coreutils' `b2sum -l 128`, fed byte by byte as the reference says."""
    assert file_digest(b"1").hex() == "cea3878a334b240469d159ff840b6434"
    assert EMPTY == "kSd6rIQxdVHtInyWBwl73g"
    files = {"b/c": file_digest(b""), "a": file_digest(b"1")}
    assert payload_digest(files) == "wLuMG_9ivRgF29SM0dDbAQ"


@given(
    st.dictionaries(st.text(max_size=8), st.binary(max_size=8), max_size=4),
    st.dictionaries(st.text(max_size=8), st.binary(max_size=8), max_size=4),
)
def test_payload_digest_differs_for_different_payloads(
    first: Mapping[str, bytes], other: Mapping[str, bytes]
) -> None:
    """Equal payloads have equal digests, in any order; others do not."""

    def digest(files: Mapping[str, bytes]) -> str:
        return payload_digest({path: file_digest(data) for path, data in files.items()})

    try:
        assert digest(first) == digest(dict(reversed(list(first.items()))))
        assert (digest(first) == digest(other)) == (first == other)
    except UnicodeEncodeError:
        return  # a lone surrogate that no file name decodes to


@pytest.mark.parametrize(
    "items",
    [None, [Item("app.conf", "conf.d/app.conf"), Item("logo", "logo.png", 0o400)]],
    ids=["all keys", "items"],
)
def test_controller_and_agent_compute_the_same_digest(
    tmp_path: Path, items: list[Item] | None
) -> None:
    """From the ConfigMap as the API has it, and from the files as a kubelet writes them."""
    payload = configmap_payload(
        "app", {"app.conf": "level=ä\n", "empty": ""}, {"logo": b"\x89\xff"}, items=items
    )
    AtomicWriter(str(tmp_path)).write(payload)
    detector = Detector([str(tmp_path)], b"any key", payloads=True)
    try:
        found = detector.read().payloads[str(tmp_path)]
    finally:
        detector.close()
    assert found == payload_digest({path: file_digest(file.data) for path, file in payload.items()})


def announced(*payloads: Mapping[str, str]) -> str:
    """Write the last part of a target as a controller would, from what ConfigMaps hold."""
    return ".".join(
        payload_digest({path: file_digest(text.encode()) for path, text in payload.items()})
        for payload in payloads
    )


def row(running: Agent, volume: Volume) -> dict[str, Any]:
    """Read what the status says of one directory."""
    rows: list[dict[str, Any]] = running.status()["directories"]
    return next(item for item in rows if item["directory"] == str(volume))


def wait_for_target(running: Agent, volume: Volume, relation: str, evidence: str) -> None:
    """Wait until a directory has a target state."""

    def is_reached() -> bool:
        found = row(running, volume)
        return (found["target"], found["evidence"]) == (relation, evidence)

    eventually(is_reached, f"{volume} {relation} ({evidence})")


def test_status_shows_the_target_of_each_directory(tmp_path: Path) -> None:
    """Announced, projected and loaded, without access to the API; nothing that can be guessed."""
    config = Volume(tmp_path / "config", text="one")
    secret = Volume(tmp_path / "secret", password="hunter2")
    pod = PodFile(tmp_path / "pod")
    pod.annotate(f"1/aa/f1/{announced({'text': 'one'})}")
    flags = ("--dir", config, "--dir", secret, "--target-file", pod.file)
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        wait_for_target(running, config, "matched", "exact")
        wait_for_target(running, secret, "matched", "order")
        pod.annotate(f"2/bb/f1/{announced({'text': 'two'})}")
        wait_for_target(running, config, "not yet projected", "exact")
        assert running.status()["target"]["state"] == "not yet projected"
        assert f'directory="{config}",evidence="exact"}} 0' in running.get("/metrics")[1]
        config.write(text="two")
        wait_for_target(running, config, "matched", "exact")
        wait_for_target(running, secret, "matched", "order")
        assert running.status()["target"]["state"] == "matched"
        config.write(text="three")
        wait_for_target(running, config, "not yet announced", "exact")
        secret.write(password="hunter3")
        wait_for_target(running, secret, "not yet announced", "order")
        pod.annotate(f"3/cc/f1/{announced({'text': 'three'})}")
        wait_for_target(running, config, "matched", "exact")
        wait_for_target(running, secret, "matched", "order")
        assert running.status()["target"]["sequence"] == 3
        shown = running.get("/status")[1] + running.get("/metrics")[1] + running.log
        for guess in ({"password": "hunter2"}, {"password": "hunter3"}):
            assert announced(guess) not in shown, "a Secret's digest could be guessed offline"


def test_directory_status_has_its_error(tmp_path: Path) -> None:
    """A rule's trouble is that of its own directories; others are loaded meanwhile."""
    first, two = Volume(tmp_path / "one", text="1"), Volume(tmp_path / "two", text="1")
    rules = tmp_path / "rules.toml"
    with webhook() as endpoint:
        endpoint.status = 500
        rules.write_text(
            f"""
            [[rule]]
            name = "fails"
            directories = ["{first}"]
            actions = [{{ http = "{endpoint.url}" }}]
            [[rule]]
            name = "works"
            directories = ["{two}"]
            actions = ["none"]
            """
        )
        with agent(tmp_path, "--dir", first, "--dir", two, "--rules", rules) as running:
            running.reaches("failing")
            stuck, fine = row(running, first), row(running, two)
            assert (stuck["loaded"], fine["loaded"]) == (None, fine["projected"])
            assert "returned 500" in stuck["error"]
            assert stuck["pending_seconds"] > 0
            assert (fine["error"], fine["pending_seconds"]) == ("", 0)
            assert (stuck["detector"], stuck["kind"]) == ("inotify", "projected")
            assert running.get("/readyz")[0] == 503
            endpoint.status = 200
            running.reaches("told")
            done = row(running, first)
            assert (done["loaded"], done["error"], done["pending_seconds"]) == (
                *(done["projected"], "", 0),
            )
            assert running.get("/readyz")[0] == 200


def test_unreadable_directory_has_its_own_error(tmp_path: Path) -> None:
    """Only the missing directory has the error."""
    volume, plain = Volume(tmp_path / "one", text="1"), tmp_path / "plain"
    plain.mkdir()
    missing = tmp_path / "missing"
    flags = ("--dir", volume, "--dir", plain, "--dir", missing)
    with agent(tmp_path, *flags, "--poll-interval", "20ms") as running:
        running.reaches("waiting")
        rows = {each["directory"]: each for each in running.status()["directories"]}
        assert rows[str(missing)]["error"] == f"{missing} does not exist yet: waiting for it"
        assert rows[str(volume)]["error"] == ""
        missing.mkdir()
        running.reaches("told")
        rows = {each["directory"]: each for each in running.status()["directories"]}
        assert {each["detector"] for each in rows.values()} == {"inotify", "comparing"}
        assert rows[str(plain)]["detector"] == "comparing"


def test_first_announcement_is_compared_with_what_was_there_before() -> None:
    """A pod that was never told anything is told what it started with, so nothing is assumed."""
    comparison = Comparison()
    comparison.compare(None, {"d": "one"}, {})
    first = Target(1, "B", "f2", (), "A", "f1")
    assert comparison.compare(first, {"d": "one"}, {})["d"].state == "not yet projected"
    assert comparison.compare(first, {"d": "two"}, {})["d"].state == "matched"
    assert not comparison.is_assumed


def test_announcement_that_was_there_at_start_is_assumed_to_match() -> None:
    """The files may be of an earlier one, so that is not evidence."""
    comparison = Comparison()
    first = Target(1, "B", "f2", (), "A", "f1")
    assert comparison.compare(first, {"d": "one"}, {})["d"].state == "matched"
    comparison.compare(Target(2, "C", "f2"), {"d": "one"}, {})
    comparison.compare(Target(2, "C", "f2"), {"d": "two"}, {})
    assert comparison.is_assumed, "these may be the files of the announcement at the start"
    comparison.compare(Target(3, "C", "f2"), {"d": "two"}, {})
    comparison.compare(Target(4, "D", "f2"), {"d": "two"}, {})
    comparison.compare(Target(4, "D", "f2"), {"d": "three"}, {})
    assert not comparison.is_assumed
