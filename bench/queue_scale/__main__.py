"""`python -m bench.queue_scale fill FOLDER`, to measure it later on a quiet machine."""

import sys
from pathlib import Path

from bench.queue_scale.filling import fill

if len(sys.argv) != 3 or sys.argv[1] != "fill":
    sys.exit("usage: python -m bench.queue_scale fill FOLDER")
fill(Path(sys.argv[2]))
