"""docs/glossary.md binds terms to names that exist."""

from __future__ import annotations

import functools
import re

import pytest
from docs.cli_reference import commands
from tests.docs.pages import ROOT
from tests.docs.test_identifiers import is_identifier
from tests.docs.test_reference_pages import exposed_metrics

from hotmap.agent.settings.flags import FLAGS as AGENT_FLAGS
from hotmap.controller.report.reasons import Reason
from hotmap.core.model.annotations import ANNOTATIONS
from hotmap.core.model.consumer import REVISION
from hotmap.core.target import TARGET

_ROW = re.compile(r"^\| (?!term|---)(.+?) \| (.+?) \| (.*?) ?\| ?(.*?) ?\|$", re.MULTILINE)


def names(column: int) -> list[tuple[str, str]]:
    """List (term, name) for the names in backticks of a column, counted from 0."""
    rows = _ROW.findall((ROOT / "docs" / "glossary.md").read_text())
    return [(row[0], name) for row in rows for name in re.findall(r"`([^`]+)`", row[column])]


@pytest.mark.parametrize(("term", "name"), names(2))
def test_glossary_names_existing_identifiers(term: str, name: str) -> None:
    """Each is a module of the program or something in it."""
    assert is_identifier(name), term


@functools.cache
def known_names() -> frozenset[str]:
    """List the flags, annotations, metrics and reasons of Events."""
    flags = {
        option for _, command in commands() for param in command.params for option in param.opts
    }
    flags |= {f"--{name}" for name in AGENT_FLAGS}
    return frozenset({*flags, *ANNOTATIONS, REVISION, TARGET, *exposed_metrics(), *Reason})


@pytest.mark.parametrize(("term", "name"), names(3))
def test_glossary_names_existing_flags_and_annotations(term: str, name: str) -> None:
    """Each is a flag of a command, an annotation, a metric or the reason of an Event."""
    assert name in known_names(), term


def test_glossary_binds_every_term() -> None:
    """Each term has at least one name, so that it cannot drift from the code."""
    bound = {term for column in (2, 3) for term, _ in names(column)}
    rows = _ROW.findall((ROOT / "docs" / "glossary.md").read_text())
    assert {row[0] for row in rows} == bound
    assert len(rows) > 30
