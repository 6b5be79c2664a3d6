"""The comparison kit: the same kubectl commands on two clusters, and what differs.

What must differ between two clusters (ids, times, versions, random names) is masked first; what
is left is a difference in behaviour.
"""

import difflib
import re
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

SECONDS = 120.0  # for one command
LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of generated names (apimachinery: pkg/util/rand)


class Mask(NamedTuple):
    """A pattern whose matches are replaced before outputs are compared."""

    pattern: re.Pattern[str]
    instead: str


def mask(pattern: str, instead: str) -> Mask:
    """Return a mask; `instead` may refer to groups of the pattern."""
    return Mask(re.compile(pattern, re.MULTILINE), instead)


# In this order: a mask sees what earlier ones have left.
MASKS: tuple[Mask, ...] = (
    mask(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    mask(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
    mask(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    mask(r'(resourceVersion"?: ?"?)\d+', r"\1N"),
    mask(r'("?continue"?: ?"?)[\w=-]{20,}', r"\1CONTINUE"),
    mask(r"\bv1\.\d+\.\d+(?:[-+][\w.+-]+)?", "VERSION"),
    mask(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?", "ADDRESS"),
    mask(rf"(?<=-)[{LETTERS}]{{8,10}}-[{LETTERS}]{{5}}\b", "HASH-RANDOM"),
    mask(rf"(?<=-)(?=[{LETTERS}]*\d)[{LETTERS}]{{8,10}}\b", "HASH"),
    mask(rf"(?<=-)[{LETTERS}]{{5}}\b", "RANDOM"),  # few words have neither vowel nor y
    mask(rf'(pod-template-hash"?[:=] ?"?)[{LETTERS}]+', r"\1HASH"),
    mask(r"(?<=[ \t(])(\d+[dhms])+(?=\)| ago|[ \t]|$)", "AGE"),
    mask(r"[ \t]+", " "),  # columns are as wide as what stood in them
    mask(r" $", ""),
)


class Command(NamedTuple):
    """One kubectl command."""

    arguments: tuple[str, ...]
    stdin: str | None = None


class Outcome(NamedTuple):
    """What one command said, masked."""

    command: Command
    code: int
    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        """Return the outcome as lines to compare and to read."""
        return [
            f"$ kubectl {shlex.join(self.command.arguments)}",
            *self.stdout.splitlines(),
            *(f"stderr: {line}" for line in self.stderr.splitlines()),
            f"exit code {self.code}",
        ]


def read_script(text: str) -> list[Command]:
    """Read one command per line; `#` begins a comment, `<<'WORD'` takes the lines up to WORD.

    The first word may be kubectl or left out.
    """
    commands = []
    lines = iter(text.splitlines())
    for line in lines:
        words = shlex.split(line, comments=True)
        if not words:
            continue
        stdin = None
        if words[-1].startswith("<<"):
            stdin = _here_document(lines, words.pop().removeprefix("<<"))
        commands.append(Command(tuple(words[1:] if words[0] == "kubectl" else words), stdin))
    return commands


def run(
    commands: Iterable[Command],
    kubectl: Path,
    kubeconfig: Path,
    *,
    masks: Sequence[Mask] = MASKS,
) -> list[Outcome]:
    """Run commands one after the other on one cluster; return the masked outcomes.

    A command that does not end within 120 s counts as exit code 124, as with timeout(1).
    """
    return [_run(command, kubectl, kubeconfig, masks) for command in commands]


def differences(
    left: Sequence[Outcome], right: Sequence[Outcome], *, names: tuple[str, str]
) -> str:
    """Return a unified diff of two lists of outcomes, command by command; empty when equal."""
    found: list[str] = []
    for item, other in zip(left, right, strict=True):
        if item.lines() != other.lines():
            diff = difflib.unified_diff(item.lines(), other.lines(), *names, n=50, lineterm="")
            found += [*diff, ""]
    return "\n".join(found)


def masked(text: str, masks: Iterable[Mask] = MASKS) -> str:
    """Replace what must differ between two clusters."""
    for pattern, instead in masks:
        text = pattern.sub(instead, text)
    return text


def _run(command: Command, kubectl: Path, kubeconfig: Path, masks: Sequence[Mask]) -> Outcome:
    try:
        done = subprocess.run(
            [kubectl, f"--kubeconfig={kubeconfig}", *command.arguments],
            input=command.stdin or "",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(command, 124, "", f"did not end within {SECONDS:g} s")
    stdout, stderr = masked(done.stdout, masks), masked(done.stderr, masks)
    return Outcome(command, done.returncode, stdout, stderr)


def _here_document(lines: Iterable[str], word: str) -> str:
    taken: list[str] = []
    for line in lines:
        if line == word:
            return "\n".join([*taken, ""])
        taken.append(line)
    raise ValueError(f"The script ends before {word}.")
