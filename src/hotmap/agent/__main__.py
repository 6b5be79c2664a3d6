"""`python -m hotmap.agent`, and the entry point of the zipapp."""

import sys

from hotmap.agent.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
