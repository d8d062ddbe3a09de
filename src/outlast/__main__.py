"""`python -m outlast` is the command `outlast`."""

import sys

from outlast.cli.entry import program

sys.exit(program())
