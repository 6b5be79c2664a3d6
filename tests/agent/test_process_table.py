"""Children of processes, as the kernel lists them."""

from __future__ import annotations

import os
import subprocess
import threading

from hotmap.agent.process.process_table import children_of


def test_process_without_children_has_none() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleep:
        assert children_of(sleep.pid) == []
        sleep.kill()


def test_children_of_all_threads_are_found() -> None:
    """The kernel lists those of each thread at that thread."""
    started: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        ready.set()
        done.wait()

    ready = threading.Event()
    thread = threading.Thread(target=start)
    thread.start()
    ready.wait()
    try:
        assert started[0].pid in {child.pid for child in children_of(os.getpid())}
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()
