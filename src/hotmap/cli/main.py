"""The `hotmap` command: subcommands and exit statuses.

Exit status 0: success. 1: the operation failed, or a check did not succeed. 2: the command line is
invalid, or what it names cannot be used (a kubeconfig, a port); one sentence on standard error says
what to do.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from hotmap import __version__
from hotmap.agent.runtime.standard_streams import (
    flush_output,
    lost_output,
    prepare_output,
    print_message,
)
from hotmap.cli.alert_flags import AlertFlags
from hotmap.cli.command_options import (
    DashboardOptions,
    InjectOptions,
    LocalDirectory,
    LocalOptions,
    PreviewOptions,
    StampOptions,
    StatusOptions,
)
from hotmap.cli.controller_flags import ControllerFlags
from hotmap.cli.extras import require_extra
from hotmap.cli.options import HotmapGroup, SectionedCommand, add_options
from hotmap.cli.reloader_flags import REPLACED_FLAGS, ReloaderFlags
from hotmap.cli.shared_options import (
    ClusterOptions,
    ControllerAddress,
    LogOptions,
    NamespaceOptions,
    WorkloadOptions,
)
from hotmap.cli.workload_names import is_kind
from hotmap.core.errors import HotmapError, ManifestError, SettingsError

__all__ = ["run"]

# Before 8.2 click shows the help without raising this.
_NO_ARGUMENTS: type[click.UsageError] | tuple[()] = getattr(
    click.exceptions, "NoArgsIsHelpError", ()
)

#: How click ends the message about a name that resembles others.
_SUGGESTION = re.compile(r"\. \(?Did you mean (?:one of: )?(.*?)\?\)?\.?$")

#: As many as click suggests.
_MAX_SUGGESTIONS = 3

#: How click ends the message about a value that should be a number within bounds.
_NO_NUMBER = re.compile("is not a valid (integer|float) range$")

#: How click names an argument that a command does not take.
_EXTRA = re.compile(r"unexpected extra argument \((.+)\)")

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit status.

    Unexpected exceptions pass, and `__main__` describes them without a traceback.
    """
    _replace_closed_streams()
    _make_streams_blocking()
    prepare_output()
    return flush_output(_program_name(), _run(arguments))


def _run(arguments: Sequence[str]) -> int:
    try:
        result = hotmap.main(list(arguments), prog_name=_program_name(), standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except _NO_ARGUMENTS as error:
        # Without a subcommand the help is printed.
        return _print_help(error)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else _program_name()
        message = _SUGGESTION.sub(r"; did you mean \1", error.format_message()).rstrip(".")
        message = _NO_NUMBER.sub("is not a number", message)
        if hint := (
            _hint_at_order(error)
            or _hint_at_replaced_flag(error)
            or _hint_at_beginning(error)
            or _hint_at_manifests(error, arguments)
            or _hint_at_kind(error, arguments)
            or _hint_at_version(arguments)
        ):
            message = f"{message.partition('; did you mean')[0]}; {hint}"
        return _fail(f"{message}; see '{command} --help'", error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except (SettingsError, ManifestError) as error:
        return _fail(error, 2)
    except HotmapError as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130
    except (BrokenPipeError, SystemExit) as error:
        return _end_early(error)
    except OSError as error:
        if not error.filename and error.errno in (errno.EBADF, errno.ENOSPC):
            return lost_output(_program_name(), error)
        return _fail(_describe_os_error(error), 1)
    return result if isinstance(result, int) else 0


def _end_early(error: BrokenPipeError | SystemExit) -> int:
    """Return the exit status where click has ended by itself: completion, or a closed pipe."""
    if isinstance(error, SystemExit) and error.code == 0:
        return 0
    return lost_output(_program_name(), BrokenPipeError())


def _print_help(error: click.ClickException) -> int:
    for line in error.format_message().splitlines():
        print_message(line)
    return error.exit_code


def _hint_at_order(error: click.UsageError) -> str:
    """Return where an option stands that was given before its command, or before `--`; else ""."""
    command = error.ctx.command if error.ctx else None
    if not isinstance(error, click.NoSuchOption) or command is None:
        return ""
    name = error.option_name
    if isinstance(command, click.Group):
        options = {
            each for inner in command.commands.values() for param in inner.params
            for each in param.opts
        }  # fmt: skip
        return f"put '{name}' after the command" if name in options else ""
    if command.name == "inject":
        from hotmap.agent.settings.flags import FLAGS

        if name.removeprefix("--") in FLAGS:
            return f"put flags of the agent after --, as in '-- {name}'"
    return ""


def _hint_at_replaced_flag(error: click.UsageError) -> str:
    """Return what to use instead of a flag of Reloader that the controller lacks; else ""."""
    command = error.ctx.command if error.ctx else None
    if not isinstance(error, click.NoSuchOption) or command is not controller:
        return ""
    return REPLACED_FLAGS.get(error.option_name, "")


def _hint_at_beginning(error: click.UsageError) -> str:
    """Return the flags that begin with an unknown one, if they are few; else "".

    Click suggests flags of about the same length only.
    """
    context = error.ctx
    if not isinstance(error, click.NoSuchOption) or context is None:
        return ""
    names = [
        f"'{name}'"
        for param in context.command.get_params(context)
        for name in (*param.opts, *param.secondary_opts)
        if name.startswith(error.option_name) and name.startswith("--")
    ]
    return f"did you mean {', '.join(names)}" if 1 <= len(names) <= _MAX_SUGGESTIONS else ""


def _hint_at_manifests(error: click.UsageError, words: Sequence[str]) -> str:
    """Return how a manifest is named, where one was given without the option; else ""."""
    command = error.ctx.command if error.ctx else None
    if command is None or not any("--filename" in param.opts for param in command.params):
        return ""
    from hotmap.cli.manifest_files import is_manifest

    if not isinstance(error, click.MissingParameter):
        words = _EXTRA.findall(error.format_message())
    options = [param for param in command.params if isinstance(param, click.Option)]
    take_values = {name for option in options if not option.is_flag for name in option.opts}
    given = zip(("", *words), words, strict=False)
    return next(
        (
            f"write '-f {word}'"
            for before, word in given
            if is_manifest(word) and before not in take_values
        ),
        "",
    )


def _hint_at_kind(error: click.UsageError, words: Sequence[str]) -> str:
    """Return how a kind and a name are written, if they are two words as for kubectl; else ""."""
    named = itertools.pairwise(words)
    extra = _EXTRA.findall(error.format_message())
    return next(
        (f"write '{kind}/{name}'" for kind, name in named if name in extra and is_kind(kind)), ""
    )


def _hint_at_version(words: Sequence[str]) -> str:
    """Say how the version is asked for, which is a command of kubectl and helm; else ""."""
    return "write '--version'" if words[:1] == ["version"] else ""


def _replace_closed_streams() -> None:
    """Open /dev/null in the place of a standard stream that the caller has closed (`>&-`).

    Otherwise Python has None in its place, and the next file or socket gets its number. Standard
    output stays one that cannot be written: a command whose output is lost must not succeed.
    """
    for name, mode, flags in (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))


def _make_streams_blocking() -> None:
    """Make standard streams block, where the caller, such as Node.js, has made its pipes not to.

    Otherwise Python takes what a pipe holds at the moment for all that the writer writes.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # one of a test has no descriptor
            os.set_blocking(stream.fileno(), True)


def _program_name() -> str:
    program = sys.argv[0].rpartition("/")[2]
    return "kubectl hotmap" if program == "kubectl-hotmap" else "hotmap"


def _describe_os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _fail(error: Exception | str, status: int) -> int:
    print_message(f"{_program_name()}: {error}")
    return status


@click.group(cls=HotmapGroup, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="hotmap")
def hotmap() -> None:
    """Deliver ConfigMap and Secret edits to every process that uses them.

    Exit status 0: success. 1: the operation failed, or a check did not succeed. 2: the command
    line is invalid, or what it names cannot be used, such as a file or a port.
    """


_CONTROLLER_EXAMPLES = """
hotmap controller                                          # the whole cluster
hotmap controller --watch-namespace shop --namespace shop  # one namespace
hotmap controller --shadow --auto-reload-all=true          # beside Reloader
"""


@hotmap.command(cls=SectionedCommand, epilog=_CONTROLLER_EXAMPLES)
@add_options(ClusterOptions, "cluster")
@add_options(ControllerFlags, "flags")
@add_options(AlertFlags, "alerts")
@add_options(ReloaderFlags, "reloader")
def controller(
    cluster: ClusterOptions, flags: ControllerFlags, alerts: AlertFlags, reloader: ReloaderFlags
) -> int:
    """Run the controller until SIGINT, SIGTERM or SIGHUP."""
    from hotmap.cli.controller import run_controller

    return run_controller(cluster, flags, alerts, reloader)


_STATUS_EXAMPLES = """
hotmap status                           # followed workloads of the namespace
hotmap status deployment/web --wait 2m  # after an edit, in a pipeline
hotmap status configmap/app             # workloads that use a source
"""


@hotmap.command(epilog=_STATUS_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[[KIND/][NAMESPACE/]NAME]...")
@add_options(WorkloadOptions, "workload")
@add_options(StatusOptions, "options")
@add_options(ControllerAddress, "address")
@add_options(ClusterOptions, "cluster")
def status(
    names: tuple[str, ...],
    workload: WorkloadOptions,
    options: StatusOptions,
    address: ControllerAddress,
    cluster: ClusterOptions,
) -> int:
    """Show whether every pod runs with the current content.

    NAME is a workload, or a source such as configmap/app for all workloads that use it.
    Exit status 0: everything shown is current. 1: something is not. 2: it is not known,
    for example because no controller answers.
    """
    from hotmap.cli.status import run_status

    return run_status(names, workload, options, cluster, address)


_WHY_EXAMPLES = """
hotmap why web
hotmap why statefulset/shop/db            # in the namespace shop
hotmap why web --output json
"""


@hotmap.command(epilog=_WHY_EXAMPLES)
@click.argument("name", metavar="[KIND/][NAMESPACE/]NAME")
@add_options(WorkloadOptions, "workload")
@add_options(ControllerAddress, "address")
@add_options(ClusterOptions, "cluster")
def why(
    name: str, workload: WorkloadOptions, address: ControllerAddress, cluster: ClusterOptions
) -> int:
    """Show the latest decisions on a workload and their reasons."""
    from hotmap.cli.status import run_why

    return run_why(name, workload, cluster, address)


_DASHBOARD_EXAMPLES = """
hotmap dashboard                          # the context's namespace
hotmap dashboard --all-namespaces
"""


@hotmap.command(epilog=_DASHBOARD_EXAMPLES)
@add_options(DashboardOptions, "options")
@add_options(ControllerAddress, "address")
@add_options(ClusterOptions, "cluster")
def dashboard(
    options: DashboardOptions, address: ControllerAddress, cluster: ClusterOptions
) -> int:
    """Show sources, workloads and pods as a map in a browser.

    Serves a page that is kept up to date on this machine, until SIGINT, SIGTERM or SIGHUP, and
    prints its URL. Anyone with the URL sees what the caller may see.
    """
    from hotmap.cli.dashboard import run_dashboard

    return run_dashboard(options, cluster, address)


_PREVIEW_EXAMPLES = """
hotmap preview configmap/app --key LEVEL   # who uses this data key
hotmap preview -f app.yaml                 # before it is applied
kubectl kustomize . | hotmap preview -f -
"""


@hotmap.command(epilog=_PREVIEW_EXAMPLES)
@click.argument("source", required=False, default="", metavar="[KIND/[NAMESPACE/]NAME]")
@add_options(PreviewOptions, "options")
@add_options(ControllerAddress, "address")
@add_options(ClusterOptions, "cluster")
def preview(
    source: str,
    options: PreviewOptions,
    address: ControllerAddress,
    cluster: ClusterOptions,
) -> int:
    """Show what an edit of a ConfigMap or Secret would do.

    Lists each workload that uses it, with the action and the reason. Nothing is written.
    Exit status 1: a workload would be held, for example because new pods could not start.
    2: a source could not be compared, such as a Secret that you may not read.
    """
    from hotmap.cli.preview import run_preview

    return run_preview(source, options, cluster, address)


_RELEASE_EXAMPLES = """
hotmap release web
hotmap release deployment/web --namespace shop
"""


@hotmap.command(epilog=_RELEASE_EXAMPLES)
@click.argument("name", metavar="[KIND/][NAMESPACE/]NAME")
@add_options(NamespaceOptions, "workload")
@add_options(ClusterOptions, "cluster")
def release(name: str, workload: NamespaceOptions, cluster: ClusterOptions) -> int:
    """Release a workload that is held after too many rollouts.

    Sets the annotation hotmap.dev/release. Earlier rollouts are no longer counted, so the rollout
    that is held proceeds.
    """
    from hotmap.cli.release import run_release

    return run_release(name, workload.namespace, cluster)


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


_INJECT_EXAMPLES = """
hotmap inject -f web.yaml --for nginx --image hotmap-nginx:0.1.0 > new.yaml
hotmap inject -f web.yaml --mode supervisor | kubectl apply -f -
hotmap inject -f web.yaml -- --url http://127.0.0.1:8080/reload
hotmap inject -f web.yaml --remove --in-place
"""


@hotmap.command(epilog=_INJECT_EXAMPLES)
@add_options(InjectOptions, "options")
@click.argument("flags", nargs=-1, metavar="[-- AGENT FLAGS]")
def inject(options: InjectOptions, flags: tuple[str, ...]) -> int:
    """Add the agent to the pods of manifests.

    Prints the manifests; only the added and replaced parts of the text change. The agent's flags
    follow --.
    """
    from hotmap.cli.inject import run_inject

    return run_inject(options, flags)


_STAMP_EXAMPLES = """
kubectl kustomize overlays/prod | hotmap stamp -f - | kubectl apply -f -
helm template web ./chart | hotmap stamp -f - | kubectl apply -f -
hotmap stamp -f manifests/ --in-place
"""


@hotmap.command(epilog=_STAMP_EXAMPLES)
@add_options(StampOptions, "options")
def stamp(options: StampOptions) -> int:
    """Annotate pod templates with the content that they use.

    For deployments without the controller: applying the manifests rolls out a workload exactly when
    a data key that it uses has changed. Prints the manifests; only the annotation changes.
    """
    from hotmap.cli.stamp import run_stamp

    return run_stamp(options)


@hotmap.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document instead.")
def demo(as_json: bool) -> int:
    """Run a demonstration; no cluster is needed.

    Starts a local control plane and a controller, edits a ConfigMap, and checks what follows. Exit
    status 0: every check passed.
    """
    require_extra("local", command="hotmap demo")
    import asyncio

    from hotmap.cli.demo.scenario import run_demo
    from hotmap.cli.terminal import OutputConsole

    return asyncio.run(run_demo(None if as_json else OutputConsole()))


@hotmap.group()
def local() -> None:
    """Run a small Kubernetes on this machine."""


_UP_EXAMPLES = """
hotmap local up                                  # in memory, on a free port
hotmap local up --dir ./plane --port 6443        # keep objects in a directory
hotmap local up --image registry.example.com/app:1.0=host:python3
"""


@local.command(epilog=_UP_EXAMPLES)
@add_options(LocalOptions, "options")
@add_options(LogOptions, "log")
def up(options: LocalOptions, log: LogOptions) -> int:
    """Run the control plane until SIGINT, SIGTERM or SIGHUP."""
    require_extra("local", command="hotmap local up")
    from hotmap.cli.local import run_local

    return run_local(
        options,
        log_format=log.log_format,
    )


@local.command(name="get-raw")
@add_options(LocalDirectory, "options")
@click.argument("key", metavar="KEY")
def get_raw(options: LocalDirectory, key: str) -> int:
    """Print a key and its value as they are stored.

    KEY is an etcd key, such as /registry/configmaps/default/app. The output is that of
    `etcdctl get KEY` for a Kubernetes cluster.
    """
    from hotmap.cli.local_store import print_stored_value

    return print_stored_value(options.directory, key)
