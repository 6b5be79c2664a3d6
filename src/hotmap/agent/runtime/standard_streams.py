"""What a command prints, also where a standard stream is closed or its disk is full."""

from __future__ import annotations

import errno
import io
import os
import sys

from hotmap.core.text import printable

__all__ = ["flush_output", "lost_output", "prepare_output", "print_message", "print_text"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

#: What a shell shows for a program that SIGPIPE ended: the reader of the output has closed it.
_CLOSED_PIPE = 141


def print_message(text: str) -> None:
    """Print one line to standard error; where that is impossible, nothing can report it.

    Control characters are escaped: a message may quote a manifest of another author.
    """
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"{printable(text)}\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)


def prepare_output() -> None:
    """Escape characters that the locale's encoding lacks, such as … to \\u2026; buffer the output.

    With PYTHONUNBUFFERED, Python does not see that a disk took a part of a text, so the rest would
    be lost without an error (python/cpython: Modules/_io/textio.c, _textiowrapper_writeflush).
    """
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper):
        return
    stdout.reconfigure(errors="backslashreplace")
    if isinstance(stdout.buffer, io.RawIOBase):
        sys.stdout = os.fdopen(
            stdout.fileno(), "w", 1, stdout.encoding, stdout.errors, closefd=False
        )


def print_text(program: str, text: str) -> None:
    """Print a text to standard output; ends the program if that is impossible."""
    prepare_output()
    try:
        if sys.stdout is None:  # it is closed
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        sys.stdout.write(f"{text.rstrip()}\n")
        sys.stdout.flush()
    except OSError as error:
        sys.exit(lost_output(program, error))


def flush_output(program: str, status: int) -> int:
    """Write what is buffered at the end of a command; returns its exit status.

    That is `status`, unless standard output cannot be written.
    """
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        status = lost_output(program, error)
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)
    return status


def lost_output(program: str, error: Exception) -> int:
    """Report that standard output cannot be written; returns the exit status.

    A reader that has closed its pipe has seen enough: that is not reported.
    """
    _discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return _CLOSED_PIPE
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    print_message(f"{program}: cannot write to standard output: {reason.lower()}")
    return 1


def _discard(stream: TextIO | None) -> None:
    """Drop what a stream holds.

    Otherwise the interpreter writes it at exit, reports that this fails, and changes the exit
    status (python: library/signal, "Note on SIGPIPE").
    """
    if stream is None:
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
