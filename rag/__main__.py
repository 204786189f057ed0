"""``python -m rag`` is the command line."""

import sys

from rag.cli import main

if __name__ == "__main__":
    sys.exit(main())
