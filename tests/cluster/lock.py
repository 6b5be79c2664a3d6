"""One at a time: a lock file that a killed process cannot leave behind."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path, *, waiting: str) -> Iterator[None]:
    """Hold an exclusive lock on `path` for the length of a with block.

    Prints `waiting` first when another process holds it, then waits for that process. The
    kernel drops the lock with its holder (flock(2)), so that nothing is ever stale.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
