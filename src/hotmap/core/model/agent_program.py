"""Recognizes the agent in the command of a container; with the standard library only."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["agent_program"]

#: The agent's program, as injection names it.
_AGENT_PROGRAM = "/hotmap/bin/agent.pyz"

#: The program as it is called elsewhere.
_AGENT = ("hotmap", "agent")


def agent_program(words: Sequence[str]) -> tuple[str, ...]:
    """Return the beginning of a container's command and arguments that names the agent, or ()."""
    if _AGENT_PROGRAM in words[:3]:
        return tuple(words[: words.index(_AGENT_PROGRAM) + 1])
    if words[:1] == ["agent"] or words[:1] == ("agent",):
        return ("hotmap", "agent")  # the image's entry point is hotmap
    program = [posixpath.basename(word) for word in words[:4]]
    return next(
        (tuple(words[: at + 2]) for at, each in enumerate(pairwise(program)) if each == _AGENT), ()
    )
