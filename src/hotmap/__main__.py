"""Entry point of `hotmap`, `kubectl hotmap` and `python -m hotmap`."""

import sys


def main() -> None:
    """Run the command line."""
    from hotmap.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
