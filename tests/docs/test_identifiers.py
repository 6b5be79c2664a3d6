"""Files, modules, flags, metrics and other names in documentation and docstrings exist."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from pathlib import Path

import pytest
from docs.cli_reference import commands
from tests.docs.pages import ROOT, docstrings, pages, tracked_files
from tests.docs.test_reference_pages import exposed_metrics

from hotmap.agent.drop_in.prometheus_config_reloader import FLAGS as RELOADER_FLAGS
from hotmap.agent.settings.flags import ALIASES
from hotmap.agent.settings.flags import FLAGS as AGENT_FLAGS
from hotmap.core.model.annotations import ANNOTATIONS, OURS, WATCH_LABEL

_BACKTICKED = re.compile(r"`([^`\s]+)`")
_PYTHON_FILE = re.compile(r"[\w./-]+\.py")
_DOCS_FILE = re.compile(r"\b(?:docs|deploy)/[\w./-]+\.md\b")
_PACKAGES = "agent|cli|controller|core|kube|local|volume"
_DOTTED = re.compile(rf"hotmap(\.\w+)+|(?:{_PACKAGES})(\.[a-z]\w*)+")
_SLASHED = re.compile(rf"(?:src/hotmap/|hotmap/)?(?:{_PACKAGES})(?:/[a-z_]+)+")
_WORD = re.compile(r"[a-z_]+")
_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_METRIC = re.compile(r"\bhotmap_[a-z_]+(?![a-z_=])")
_ANNOTATION = re.compile(r"\bhotmap\.dev/[a-z]+(?:-[a-z]+)*\b")

#: What is left out of a Python file: texts in three quotes, and comments that no string has.
_DOCSTRING_OR_COMMENT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|("(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')|#[^\n]*', re.DOTALL
)

#: Documents that are not part of the project.
_FOREIGN = re.compile(r"\b(?:DESIGN|STYLE)(?:\.md)?,? (?:§|section )|\breference/[a-z]+\.md §")

#: Flags of other programs that pages and docstrings name.
_FOREIGN_FLAGS = {
    "--aclfile",  # redis-server
    "--as",
    *("--cascade", "--field-selector"),  # kubectl delete
    "--overwrite",  # kubectl annotate
    "--authorization-mode",
    "--calls",
    "--config",  # caddy
    *("--force-conflicts", "--force", "--server-side", "--validate"),  # kubectl apply, argocd
    "--from",  # kubectl create job
    "--replicas",  # kubectl scale
    *("--create-namespace", "--values", "--set", "--force-replace"),  # helm
    *("--volume-dir", "--webhook-method", "--webhook-retries", "--webhook-status-code", "--web"),
    *("--cluster", "--delay-interval", "--write"),  # python -m benchmarks
    *("--dns", "--kubectl"),  # python -m tests.cluster
    "--flag",  # stands for any
}

#: Libraries, programs and their settings that are named like an identifier.
_FOREIGN_WORDS = {
    "coredns_reload_failed_total", "log_file", "looptime", "maillog_file", "path_config_source",
    "preload_app", "server_name", "update_failure", "update_rejected", "watched_directory",
}  # fmt: skip

#: Types of the controller's Secrets.
_SECRET_TYPES = {"hotmap.dev/key", "hotmap.dev/state", "hotmap.dev/pending"}


def is_module(name: str) -> bool:
    """Return whether a path such as `kube/watch` is a module, a package or a folder."""
    base = "src/hotmap/" + name.removeprefix("src/").removeprefix("hotmap/")
    return any(file == f"{base}.py" or file.startswith(f"{base}/") for file in tracked_files())


def is_identifier(dotted: str) -> bool:
    """Return whether a dotted name is a module of ours or something in it."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.util.find_spec(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        if found is not None:
            value: object = importlib.import_module(".".join(parts[:length]))
            for name in parts[length:]:
                if not hasattr(value, name):
                    return False
                value = getattr(value, name)
            return True
    return False


@functools.cache
def code_words() -> frozenset[str]:
    """List the identifiers of all Python code, the words of its strings, and module names."""
    words = {Path(name).stem for name in tracked_files()}
    for name in tracked_files():
        if name.endswith(".py") and name != "tests/docs/test_identifiers.py":
            code = _DOCSTRING_OR_COMMENT.sub(_keep_string, (ROOT / name).read_text())
            words.update(re.findall(r"\w+", code))
    return frozenset(words)


def _keep_string(match: re.Match[str]) -> str:
    return match[1] or " "


@functools.cache
def known_flags() -> frozenset[str]:
    """List the flags of all commands, the agent's included."""
    flags = {
        "--help",
        "--version",
        *(f"--{name}" for name in [*AGENT_FLAGS, *ALIASES, *RELOADER_FLAGS]),
    }
    for _, command in commands():
        for param in command.params:
            flags.update(param.opts, param.secondary_opts)
    return frozenset(flags | _FOREIGN_FLAGS)


@functools.cache
def known_metrics() -> frozenset[str]:
    """List the metrics of the controller and of the agent."""
    metrics = exposed_metrics()
    metrics |= {name.removesuffix("_total") for name in metrics}
    for name in tracked_files():
        if name.startswith("src/hotmap/agent/report/"):
            metrics |= set(re.findall(r'"(hotmap_agent_\w+)"', (ROOT / name).read_text()))
    return frozenset(metrics)


def is_dead(word: str) -> bool:
    """Return whether a word in backticks names something of ours that does not exist."""
    if _PYTHON_FILE.fullmatch(word):
        return not any(f"/{file}".endswith(f"/{word.lstrip('./')}") for file in tracked_files())
    if _DOTTED.fullmatch(word):
        name = word if word.startswith("hotmap.") else f"hotmap.{word}"
        return not word.endswith(".dev") and not is_identifier(name)
    if _SLASHED.fullmatch(word):
        return not is_module(word)
    if not _WORD.fullmatch(word):
        return False
    return word not in code_words() and word not in known_metrics()


def dead_references(text: str) -> list[str]:
    """Find what a text names and the tree does not have."""
    # Paths of other projects, such as kubernetes: pkg/kubelet/…, are not backticked Python files.
    dead = [name for name in _DOCS_FILE.findall(text) if name not in tracked_files()]
    dead += _FOREIGN.findall(text)
    dead += [
        word for word in _BACKTICKED.findall(text) if word not in _FOREIGN_WORDS and is_dead(word)
    ]
    dead += [flag for flag in _FLAG.findall(text) if flag not in known_flags()]
    dead += [name for name in _METRIC.findall(text) if name not in known_metrics()]
    annotations = {*ANNOTATIONS, *OURS, WATCH_LABEL, *_SECRET_TYPES}
    dead += [name for name in _ANNOTATION.findall(text) if name not in annotations]
    return dead


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_names_what_exists(page: Path) -> None:
    """Files, modules, identifiers, flags, metrics and annotations."""
    text = page.read_text()
    assert dead_references(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)) == []


def test_sources_name_existing_pages() -> None:
    """In comments, too: pages exist, and no documents outside of the project are cited."""
    dead = set()
    for name in tracked_files():
        if name.startswith(("src/", "tests/", "benchmarks/")) and name.endswith(".py"):
            if name == "tests/docs/test_identifiers.py":
                continue
            text = (ROOT / name).read_text()
            found = [page for page in _DOCS_FILE.findall(text) if page not in tracked_files()]
            dead |= {(name, word) for word in [*found, *_FOREIGN.findall(text)]}
    assert dead == set()


def test_docstrings_name_what_exists() -> None:
    """The same as on pages, in every docstring of the program."""
    dead = {(name, word) for name, text in docstrings() for word in dead_references(text)}
    assert dead == set()


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("see docs/guides/absent.md", "docs/guides/absent.md"),
        ("see `kube/lookout.py`", "kube/lookout.py"),
        ("see `hotmap.kube.watch.Absent`", "hotmap.kube.watch.Absent"),
        ("judged by `core.freshness`", "core.freshness"),
        ("see `controller/lookout`", "controller/lookout"),
        ("see `lookout`", "lookout"),
        ("set `--looks` to 5", "--looks"),
        ("`hotmap controller --looks=5`", "--looks"),
        ("see `hotmap_looks_total`", "hotmap_looks_total"),
        ("see hotmap_agent_absent_total", "hotmap_agent_absent_total"),
        ("set `hotmap.dev/absent: auto`", "hotmap.dev/absent"),
        ("see DESIGN §8", "DESIGN §"),
        ("see STYLE.md §3.7", "STYLE.md §"),
        ("see reference/python.md §1", "reference/python.md §"),
    ],
)
def test_dead_reference_is_found(text: str, dead: str) -> None:
    """References to names that do not exist are found in text."""
    assert dead in dead_references(text)


@pytest.mark.parametrize(
    "text",
    [
        "docs/agent.md, `kube/watch.py`, `kube/watch`, `hotmap.kube.watch`, `core.errors`",
        "`reconcile`, `--settle=5s`, `kubectl apply --server-side`, `hotmap_records`",
        "`hotmap.dev/follow: auto`, hotmap.dev/revision, `hotmap.dev`",
        "kubernetes: pkg/volume/util/atomic_writer.go, RFC 9112 §7.1",
    ],
)
def test_existing_reference_is_not_reported(text: str) -> None:
    """Names that exist, and references to other projects, are not reported."""
    assert dead_references(text) == []
