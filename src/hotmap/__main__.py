"""Entry point of `hotmap`, `kubectl hotmap` and `python -m hotmap`.

The agent runs beside every pod, so it branches off before click is imported.
"""

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["agent"]:
        from hotmap.agent.main import main as run_agent

        sys.exit(run_agent(sys.argv[2:]))
    from hotmap.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
