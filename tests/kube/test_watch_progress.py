"""Until when watches have delivered every change: each namespace for itself."""

from __future__ import annotations

from hotmap.kube.watch_progress import MissedTime, WatchProgress


def test_interrupted_watch_of_one_namespace_concerns_no_other() -> None:
    """What arrives late in one says nothing of the changes in others."""
    progress = WatchProgress()
    progress.record_caught_up("shop", 10.0)
    progress.record_caught_up("web", 20.0)
    progress.record_interruption("shop", listed=True)
    assert progress.missed_time("shop") == MissedTime(10.0, True)
    assert progress.missed_time("web") is None
    progress.record_received("shop", 30.0)
    progress.record_received("web", 30.0)
    assert progress.until() == 10.0
    progress.record_caught_up("shop", 40.0)
    assert progress.missed_time("shop") is None
    assert progress.until() == 30.0


def test_interrupted_watch_of_all_namespaces_concerns_each() -> None:
    """A list in between means that states were missed, however often it is interrupted."""
    progress = WatchProgress()
    progress.record_caught_up(None, 10.0)
    progress.record_interruption(None, listed=True)
    progress.record_interruption(None, listed=False)
    assert progress.missed_time("shop") == MissedTime(10.0, True)


def test_namespace_that_cannot_be_watched_holds_up_no_other() -> None:
    """A missing Role leaves the progress of the other namespaces as it is."""
    progress = WatchProgress()
    progress.record_interruption("forbidden", listed=True)
    progress.record_caught_up("shop", 10.0)
    assert progress.until() == 10.0
    assert progress.missed_time("forbidden") is None
