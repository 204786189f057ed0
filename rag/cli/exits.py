"""The exit codes, which other programs rely on."""

OK = 0
FAILED = 1
WRONG_USAGE = 2
SOME_FAILED = 3
"""Some files of an ``add`` failed; the others were added."""
INTERRUPTED = 130
