"""`python -m adjourn.graph`: the command line, where the script `adjourn` is not on the path."""

import sys

from adjourn.graph.cli import main

if __name__ == "__main__":
    sys.exit(main())
