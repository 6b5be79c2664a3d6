"""Starts the agent with another reloader's command line."""

from __future__ import annotations

from hotmap.agent.drop_in.go_flags import HelpRequested
from hotmap.agent.runtime.standard_streams import print_message, print_text
from hotmap.core.errors import SettingsError

__all__ = ["run"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotmap.agent.settings.settings import Settings


def run(program: str, words: Sequence[str]) -> int:
    """Run; returns the exit status, 2 for invalid flags."""
    try:
        settings = _load(program, words)
    except HelpRequested:
        print_text(program, _help(program))
        return 0
    except SettingsError as error:
        print_message(f"{program}: {error}")
        return 2
    if settings is None:
        return 0
    from hotmap.agent.agent import Agent
    from hotmap.agent.process.spawn import disable_core_dumps, open_standard_streams
    from hotmap.agent.runtime.loop import Loop

    open_standard_streams()
    disable_core_dumps()
    return Agent(settings, Loop()).run()


def _help(program: str) -> str:
    if program == "configmap-reload":
        from hotmap.agent.drop_in import configmap_reload

        return configmap_reload.help_text()
    from hotmap.agent.drop_in import prometheus_config_reloader

    return prometheus_config_reloader.help_text()


def _load(program: str, words: Sequence[str]) -> Settings | None:
    if program == "configmap-reload":
        from hotmap.agent.drop_in import configmap_reload

        return configmap_reload.load(words)
    from hotmap.agent.drop_in import prometheus_config_reloader as reloader

    if "--version" in words or "--short-version" in words:
        from hotmap import __version__

        name = "" if "--short-version" in words else f"{program} (hotmap agent) "
        print_text(program, f"{name}{__version__}")
        return None
    settings = reloader.load(words)
    if settings is None:
        _wait_for_the_end(program)
        return None
    reloader.set_ordinal(words)
    return settings


def _wait_for_the_end(program: str) -> None:
    """Wait for SIGTERM or SIGINT, as there is nothing to watch."""
    import signal

    print_message(f"{program}: nothing to watch")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
