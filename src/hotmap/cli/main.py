"""The `hotmap` command: groups, options and exit statuses.

Exit status 0: done and true. 1: it did not come out as it should. 2: the call itself is wrong
(a flag, a kubeconfig), one sentence on standard error says what to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from hotmap import __version__
from hotmap.cli.reloader_flags import QuotedChoice, ReloaderFlags, SectionedCommand, reloader_flags
from hotmap.core.errors import HotmapError, ManifestError, SettingsError

__all__ = ["run"]

# Before 8.2 click shows the help without raising this.
_CALLED_BARE: type[click.UsageError] | tuple[()] = getattr(
    click.exceptions, "NoArgsIsHelpError", ()
)
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit status, and never lets a traceback out."""
    try:
        result = hotmap.main(list(arguments), prog_name=_name(), standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except _CALLED_BARE as error:
        # Nothing was asked for, so what could be is the answer.
        error.show()
        return error.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else _name()
        message = error.format_message().rstrip(".")
        click.echo(f"{_name()}: {message}; see '{command} --help'", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (SettingsError, ManifestError) as error:
        return _fail(error, 2)
    except HotmapError as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1  # whoever read our output has seen enough
    except OSError as error:
        return _fail(error, 1)
    finally:
        _let_go_of_output()
    return result if isinstance(result, int) else 0


def _let_go_of_output() -> None:
    """Write out what is buffered; where nobody takes it, drop it.

    Else the interpreter would complain at its end, and give away the exit status for it (python:
    library/signal, "Note on SIGPIPE").
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def _name() -> str:
    called = sys.argv[0].rpartition("/")[2]
    return "kubectl hotmap" if called == "kubectl-hotmap" else "hotmap"


def _fail(error: Exception, status: int) -> int:
    click.echo(f"{_name()}: {error}", err=True)
    return status


@click.group(context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="hotmap")
def hotmap() -> None:
    """Deliver ConfigMap and Secret edits to every process that uses them."""


class _Rate(click.FloatRange):
    """A number within bounds; what is no number (nan) is within none, whatever click thinks."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it as a number."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{number} is not in the range 0<=x<={self.max:g}.", param, ctx)
        return number


_kubeconfig = click.option(
    "--kubeconfig", metavar="FILE", help="The kubeconfig to use instead of $KUBECONFIG."
)
_context = click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")
_log_format = click.option(
    "--log-format",
    metavar="text|json",
    type=QuotedChoice(["text", "json", ""]),
    default="text",
    show_default=True,
    help="How log lines are written.",
)


@hotmap.command(cls=SectionedCommand)
@_kubeconfig
@_context
@click.option(
    "--namespace",
    metavar="NAME",
    help="Where the controller keeps its own Secrets. Default: its pod's namespace, else hotmap.",
)
@click.option("--watch-namespace", metavar="NAME", help="Serve this namespace alone.")
@click.option(
    "--follow",
    metavar="off|auto|LIST",
    default="off",
    show_default=True,
    help="What consumers without an annotation follow.",
)
@click.option(
    "--settle",
    metavar="DURATION",
    default="500ms",
    show_default=True,
    help="Quiet time before a rollout, where no annotation says another.",
)
@click.option(
    "--settle-max",
    metavar="DURATION",
    help="Its upper bound. Default: 5s, or --settle where that is longer.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    help="Consumers at once.",
)
@click.option(
    "--flap-limit",
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="Rollouts of one workload in ten minutes before it is held; 0 holds none.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Let one of several replicas act, by a Lease. Default: in a pod.",
)
@click.option(
    "--looks",
    metavar="N",
    type=_Rate(0, 100),
    default=5.0,
    show_default=True,
    help="Workloads a second whose pods are looked at afterwards; 0 looks at none.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT|none",
    help="Where metrics, health and status are served. Default: 127.0.0.1:9533.",
)
@_log_format
@reloader_flags
def controller(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    watch_namespace: str | None,
    follow: str,
    settle: str,
    settle_max: str | None,
    workers: int,
    flap_limit: int,
    leader_elect: bool | None,
    looks: float,
    listen: str | None,
    log_format: str,
    **reloader: Any,
) -> int:
    """Run the controller against a cluster until it is told to stop."""
    from hotmap.cli.controller import run_controller

    return run_controller(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        watch_namespace=watch_namespace,
        follow=follow,
        settle=settle,
        settle_max=settle_max,
        workers=workers,
        flap_limit=flap_limit,
        leader_elect=leader_elect,
        looks=looks,
        listen=listen,
        log_format=log_format,
        reloader=ReloaderFlags(**reloader),
    )


_namespace = click.option(
    "--namespace", "-n", metavar="NAME", default="", help="Default: the kubeconfig's own."
)
_output = click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How it is printed.",
)
_url = click.option(
    "--url", metavar="URL", help="The controller's address. Default: it is looked for."
)
_controller_namespace = click.option(
    "--controller-namespace",
    metavar="NAME",
    default="",
    help="Where the controller's pods run. Default: they are looked for everywhere.",
)


@hotmap.command()
@click.argument("names", nargs=-1, metavar="[[KIND/][NAMESPACE/]NAME]...")
@_namespace
@click.option("--all-namespaces", "-A", is_flag=True, help="Show all namespaces.")
@click.option(
    "--wait", metavar="DURATION", default="", help="Wait so long at most until all is current."
)
@_output
@click.option("--quiet", "-q", is_flag=True, help="Print nothing; the exit status tells.")
@_url
@_controller_namespace
@_kubeconfig
@_context
def status(
    names: tuple[str, ...],
    namespace: str,
    all_namespaces: bool,
    wait: str,
    output: str,
    quiet: bool,
    url: str | None,
    controller_namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Show whether every pod holds the present content.

    Exit status 0: all is current. 1: something is not. 2: nobody can tell.
    """
    from hotmap.cli.asking import Where
    from hotmap.cli.status import Wanted, run_status

    return run_status(
        Wanted(names, namespace, all_namespaces, output, quiet, wait),
        Where(kubeconfig, context, url, controller_namespace),
    )


@hotmap.command()
@click.argument("name", metavar="[KIND/][NAMESPACE/]NAME")
@_namespace
@_output
@_url
@_controller_namespace
@_kubeconfig
@_context
def why(
    name: str,
    namespace: str,
    output: str,
    url: str | None,
    controller_namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Show what was done to a workload lately, or not done, and why."""
    from hotmap.cli.asking import Where
    from hotmap.cli.status import run_why

    return run_why(name, namespace, output, Where(kubeconfig, context, url, controller_namespace))


@hotmap.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.pass_context
def agent(context: click.Context) -> int:
    """Reload a process when its files change."""
    # `hotmap agent …` branches off in __main__ already, without click; this is for --help.
    from hotmap.agent.main import main

    return main(context.args)


@hotmap.command()
@click.option(
    "--filename",
    "-f",
    "filenames",
    required=True,
    multiple=True,
    metavar="FILE",
    help="A manifest or a directory of them; - for standard input. May be given again.",
)
@click.option(
    "--mode",
    type=QuotedChoice(["native-sidecar", "sidecar", "init", "supervisor"]),
    default="native-sidecar",
    show_default=True,
    metavar="MODE",
    help="native-sidecar, sidecar, init, or supervisor: around the application's command.",
)
@click.option("--for", "program", metavar="PROGRAM", help="A known program, as in hotmap agent.")
@click.option("--container", metavar="NAME", help="Whose mounts to watch. Default: the only one.")
@click.option("--stage", is_flag=True, help="Show the application only what passed its check.")
@click.option(
    "--restart-on", metavar="frozen", help="Restart when environment or subPath content changes."
)
@click.option(
    "--restart", metavar="WAY", help="supervised, all-containers or term: how it is restarted."
)
@click.option("--keep-env", is_flag=True, help="Let a supervisor take the environment as it is.")
@click.option(
    "--user",
    type=click.IntRange(0, 2**31 - 1),
    metavar="UID",
    help="Whom the agent runs as. Default: the application's user.",
)
@click.option("--image", metavar="IMAGE", help="The agent's image. Default: this version's.")
@click.option("--remove", is_flag=True, help="Take the agent out again.")
@click.option("--output", "-o", metavar="FILE", help="Write there instead of standard output.")
@click.option("--in-place", "-i", is_flag=True, help="Write each file to where it came from.")
@click.argument("flags", nargs=-1, metavar="[-- AGENT FLAGS]")
def inject(
    filenames: tuple[str, ...],
    mode: str,
    program: str | None,
    container: str | None,
    stage: bool,
    restart_on: str | None,
    restart: str | None,
    keep_env: bool,
    user: int | None,
    image: str | None,
    remove: bool,
    output: str | None,
    in_place: bool,
    flags: tuple[str, ...],
) -> int:
    """Add the agent to the pods of manifests, and print them."""
    from hotmap.cli.inject import Injection, default_image, run_inject

    named = (("--for", program), ("--restart-on", restart_on), ("--restart", restart))
    words = (*(word for name, value in named if value for word in (name, value)), *flags)
    if remove and (words or container or stage or keep_env or image or user is not None):
        raise SettingsError("--remove takes out whatever was injected; leave the other flags out")
    injection = Injection(
        image or default_image(), container or "", words, mode, stage, keep_env, user
    )
    return run_inject(
        filenames, None if remove else injection, output=output or "", in_place=in_place
    )


@hotmap.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def demo(as_json: bool) -> int:
    """Show an edit reach running processes, without a cluster."""
    import asyncio

    from rich.console import Console

    from hotmap.cli.demo.story import run_demo

    return asyncio.run(run_demo(None if as_json else Console(highlight=False)))


@hotmap.group()
def local() -> None:
    """A small Kubernetes on this machine, for development and tests."""


@local.command()
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    help="Its state directory. Default: hotmap/local in the user's state directory.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The API server's port; 0 picks one."
)
@click.option(
    "--sync-period",
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="Pods get edited files after this time, plus up to half of it at random.",
)
@_log_format
def up(directory: str | None, port: int, sync_period: str, log_format: str) -> int:
    """Run it in the foreground until it is told to stop."""
    from hotmap.cli.local import run_local

    return run_local(directory=directory, port=port, sync_period=sync_period, log_format=log_format)
