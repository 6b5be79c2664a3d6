"""Entry point of `hotmap`, `kubectl hotmap` and `python -m hotmap`.

The agent runs beside every pod, so it branches off before click is imported. It also goes by the
names of the reloaders whose command lines it takes, as a program or as the first argument.
"""

import errno
import sys

#: Reloaders whose command lines the agent takes.
DROP_INS = ("configmap-reload", "prometheus-config-reloader")


def main() -> None:
    """Run the command line."""
    try:
        sys.exit(_run())
    except KeyboardInterrupt:  # while modules are imported
        sys.exit(130)
    except Exception as error:
        from hotmap.agent.runtime.errors import describe_unexpected

        if module := _missing_module(error):
            sys.stderr.write(
                f"hotmap: the Python module {module} is missing or broken: install hotmap again, "
                "as pip install '.[local]' does in a checkout (docs/install.md)\n"
            )
            sys.exit(2)  # 1 would be an answer of `hotmap status`
        advice = "please report it, with the command"
        if isinstance(error, OSError) and error.errno == errno.EMFILE:
            advice = "raise the limit of open files (ulimit -n)"
        sys.exit(f"hotmap: {describe_unexpected(error)}; {advice}")


def _missing_module(error: Exception) -> str:
    """Return the module of a dependency that cannot be imported; "" for any other error."""
    if not isinstance(error, ImportError):
        return ""
    name = (error.name or "").partition(".")[0]
    return "" if name == "hotmap" or name in sys.stdlib_module_names else name


def _run() -> int:
    called = sys.argv[0].rpartition("/")[2]
    words = [called, *sys.argv[1:]] if called in DROP_INS else sys.argv[1:]
    if words and words[0] in ("agent", *DROP_INS):
        from hotmap.agent.main import main as run_agent

        return run_agent(words[1:] if words[0] == "agent" else words)
    from hotmap.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
