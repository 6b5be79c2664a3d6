"""`hotmap demo`: what it shows is true, and nothing is left of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.requires import requires
from tests.walkthroughs.leftovers import adopting, mounts_below
from tests.walkthroughs.person import Person, nobody, yourself

#: Both people see both outputs, one each in the quick tests.
ROOT_IS_SLOW = [pytest.param("root", marks=pytest.mark.slow), "unprivileged"]
NOBODY_IS_SLOW = ["root", pytest.param("unprivileged", marks=pytest.mark.slow)]


@pytest.fixture
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    """With all rights, or with none."""
    # Not tmp_path, which only its owner may enter.
    directory = Path(tempfile.mkdtemp(prefix="hotmap-person-"))
    directory.chmod(0o755)
    try:
        if request.param == "unprivileged":
            yield nobody(directory)
        else:
            requires("root", available=os.geteuid() == 0, reason="the tests do not run as root")
            yield yourself(directory)
    finally:
        shutil.rmtree(directory)


def shown(person: Person, *arguments: str) -> str:
    """Run the demo; return what it shows, having looked that nothing else is left of it."""
    with adopting() as orphans:
        with person.start("demo", *arguments) as process:
            output, problem = process.communicate(timeout=90)
        requires("userns", available="user namespace" not in problem, reason=problem)
        assert problem == ""
        assert process.returncode == 0, output
        assert orphans() == []
    assert person.files() == []
    assert mounts_below(person.directory) == []
    return output


@pytest.mark.parametrize("person", ROOT_IS_SLOW, indirect=True)
def test_demo_checks_pass(person: Person) -> None:
    """In an empty home, with nothing installed: the edits and what followed from each."""
    output = shown(person)
    assert output.count("unaffected") == 5
    assert re.search(r"^ \+\d+\.\d\d s status +proxy: current; content is up to date \(proven\)$",
                     output, re.M)  # fmt: skip
    assert re.search(r"^ \+\d+\.\d\d s status +proxy: refused; ", output, re.M)
    assert max(map(len, output.splitlines())) <= 80
    assert re.search(r"^all \d+ checks passed in ", output, re.M)
    assert "FAILED" not in output


@pytest.mark.parametrize("person", NOBODY_IS_SLOW, indirect=True)
def test_demo_prints_json(person: Person) -> None:
    """One JSON document, with the result of every check."""
    document = json.loads(shown(person, "--json"))
    assert document["passed"] is True
    facts = [line for line in document["lines"] if "after" in line]
    assert all(line["passed"] for line in facts)
    assert {line["label"] for line in facts} >= {"ready", "running", "decided", "loaded"}


@pytest.mark.parametrize("person", ["root"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_of_a_demo_that_is_ended_early(
    person: Person, number: signal.Signals
) -> None:
    """As where its terminal is closed."""
    with adopting() as orphans:
        with person.start("demo") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(number)
            _, problem = process.communicate(timeout=90)
        assert (process.returncode, problem) == (128 + number, "")
        assert orphans() == []
    assert person.files() == []
    assert mounts_below(person.directory) == []


@pytest.mark.parametrize("person", ["root"], indirect=True)
def test_nothing_is_left_of_a_demo_whose_output_is_closed(person: Person) -> None:
    """As by `hotmap demo | head -1`."""
    with adopting() as orphans:
        with person.start("demo") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr is not None
            assert process.stderr.read() == ""
            assert process.wait(timeout=90) == 141
        assert orphans() == []
    assert person.files() == []
    assert mounts_below(person.directory) == []
