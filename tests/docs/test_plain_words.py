"""Code, documentation, tests and manifests use standard terms instead of private phrases."""

from __future__ import annotations

import functools
import re

import pytest
from tests.docs.pages import ROOT, tracked_files

#: Regular expressions of phrases, and the standard terms to write instead. Only phrases without a
#: correct use are listed, so that nothing has to be exempted.
PLAIN = {
    r"leads? no more": "lost leadership",
    r"leads? from now on": "became leader",
    r"(?:is|be|was) said to nobody": "is not reported",
    r"knock(?:s|ed|ing)? (?:on|at|again)": "wait, retry",
    r"lookouts?": "pod checks",
    r"PodLookout|hotmap_looks_total": "PodChecker, hotmap_pod_checks_total",
    r"a look at (?:its|the|their) pods": "a pod check",
    r"(?:is|are|was|were) no (?:duration|list|number|YAML|JSON|base64|UTF-8)": "is not a number",
    r"seen for the first time": "now tracking, adopted",
    r"noted, nothing to do": "no action",
    r"content went and came back": "reverted",
    r"a defect met": "internal error",
    r"nobody can tell": "unknown",
    r"nobody noted": "unknown",
    r"written last by": "last modified by",
    r"is what was last asked for": "unchanged",
    r"taken as off": "treated as off",
    r"so long at most": "maximum time",
    r"for as long as our patience": "as long as the settings allow",
    r"(?:is|are) not to be had": "is not available",
    r"thereof|wherein|whereof|whereby|therein|hitherto|henceforth|lest": "a plain conjunction",
    r"(?:is|was) none of (?:our|its|his|her|their) business": "is not followed",
    r"(?:is|are) tried again in": "retrying in",
    r"stands? or falls?": "depends",
    r"SeenSource|TemplateSighting|note_(?:seen|watched|listed)|agents_told": "record_change",
    r"somebody's doing": "a user's action",
    r"as far as anybody can": "as far as known",
    r"knows (?:him|them) by": "identifies",
    r"(?:was|were|last|what we) asked for (?:meanwhile|in between|A|some content)": "applied",
    r"counts? as asked": "counts as applied",
    r"(?:went|goes) back and forth": "alternated",
    r"cannot be overtaken": "is not interrupted",
    r"speaks? of auto": "without the annotation",
    r"gave (?:no|neither a|half of a) (?:credentials|token|client certificate)": "returned",
    r"broke off (?:GET|POST|PATCH|PUT)": "closed the connection",
    r"logs in by": "uses",
    r"no cluster to talk to": "no cluster is configured",
    r"more than one word": "contains white space",
    r"the words of (?:its|a|the) (?:check|agent)s?": "the output of its check",
    r"(?:check|checker|agent)'s words": "the output of its check",
    r"stops nobody|restarts nobody|disturbs nobody|holds nobody": "has no effect",
    r"(?:while|when|where|that|so) (?:nobody|somebody)": "name the process, user or client",
    r"(?:nobody|somebody) (?:else )?(?:has|is|may|reads?|writes?|wrote|asks?|knows?|watche[ds])": (
        "name the process, user or client"
    ),
    r"as one:|lambda one:|for one in": "name the variable after what it holds",
    r"stor(?:y|ies) (?:about|on|with|plays?)": "scenario",
    r"anew|for ever": "again, forever",
    r"in vain": "without success, timed out",
    r"what is left of": "the rest of, remaining",
    r"pip install '?hotmap": "pip install '.[local]' in a checkout: it is on no package index",
}

_SUFFIXES = (".py", ".md", ".yaml", ".yml", ".toml")


@functools.cache
def texts() -> dict[str, str]:
    """Read all files but this one, which has the phrases, and those with planted references."""
    names = tracked_files() - {"tests/docs/test_plain_words.py", "tests/docs/test_identifiers.py"}
    return {name: (ROOT / name).read_text() for name in sorted(names) if name.endswith(_SUFFIXES)}


@functools.cache
def suspects() -> dict[str, str]:
    """Read the files that have any of the phrases: one pass over everything instead of one each.

    In lower case, since a search that ignores case takes four times as long.
    """
    any_phrase = compile_phrase("|".join(PLAIN).lower(), re.NOFLAG)
    return {name: text for name, text in texts().items() if any_phrase.search(text.lower())}


@functools.cache
def compile_phrase(phrase: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """Compile a phrase that may continue on the next line."""
    # A line end within a paragraph or a comment, with its indentation and comment mark.
    gap = r"(?:[ \t]*\n[ \t]*(?:#:? ?)?| )"
    return re.compile(rf"(?<![\w-])(?:{phrase.replace(' ', gap)})(?![\w-])", flags)


def find_phrase(phrase: str, text: str) -> list[int]:
    """Return the line numbers of a phrase."""
    found = compile_phrase(phrase).finditer(text)
    return [text.count("\n", 0, match.start()) + 1 for match in found]


@pytest.mark.parametrize("phrase", PLAIN)
def test_phrase_is_not_used(phrase: str) -> None:
    """Write the standard term of PLAIN instead."""
    found = [
        f"{name}:{line}" for name, text in suspects().items() for line in find_phrase(phrase, text)
    ]
    assert found == [], f"write instead: {PLAIN[phrase]}"


def test_pages_for_users_say_workload() -> None:
    """`consumer` is a term of the code and of docs/architecture.md (docs/glossary.md)."""
    folders = ("README.md", "charts/", "deploy/README.md", "docs/guides/", "docs/reference/")
    more = {"docs/agent.md", "docs/install.md", "docs/reloader.md", "docs/semantics.md"}
    users = [name for name in texts() if name.startswith(folders) or name in more]
    pages = [name for name in users if name.endswith(".md")]
    assert len(pages) > 15
    assert [name for name in pages if find_phrase("consumers?", texts()[name])] == []


def test_phrase_is_found_across_line_ends() -> None:
    """In paragraphs and in comments; words that only contain the phrase are not found."""
    assert find_phrase("taken as off", "is taken as\n    off") == [1]
    assert find_phrase("taken as off", "x = 1\n# It is taken\n# as off.") == [2]
    assert find_phrase("taken as off", "mistaken as offered") == []
