"""Links between Markdown files, and to their headings, are not dead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, pages, tracked_files

#: `[text](target)` and `![text](target)`, outside of code.
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (anchor := slug if not number else f"{slug}-{number}") in found:
            number += 1
        found.add(anchor)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_are_not_dead(page: Path) -> None:
    """Each relative path is a tracked file or folder, each anchor a heading of it."""
    folders = {str(parent) for name in tracked_files() for parent in Path(name).parents}
    dead = []
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        name = str(there.relative_to(ROOT)) if there.is_relative_to(ROOT) else ""
        if name not in tracked_files() | folders or (anchor and anchor not in anchors(there)):
            dead.append(target)
    assert dead == []


def test_index_lists_every_page_for_users() -> None:
    """docs/README.md links each page of docs, its guides and its references."""
    index = ROOT / "docs" / "README.md"
    targets = {target.partition("#")[0] for target in _LINK.findall(index.read_text())}
    linked = {(index.parent / target).resolve() for target in targets}
    folders = [index.parent, index.parent / "guides", index.parent / "reference"]
    assert [
        page for page in pages() if page.parent in folders and page not in {*linked, index}
    ] == []
