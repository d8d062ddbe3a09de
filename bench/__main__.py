"""`make bench`: measure everything, print it and write bench/RESULTS.md."""

import logging
from pathlib import Path

from bench import exec as exec_bench
from bench import guard
from bench.measure import machine, table

logging.disable(logging.CRITICAL)
parts = [
    "# Results",
    "",
    f"Written by `make bench`. {machine()}; medians of interleaved rounds. Read the ratios.",
    "",
    table("The guard", guard.rows()),
    table("Starting a command", exec_bench.rows()),
]
text = "\n".join(parts)
print(text)
Path(__file__).with_name("RESULTS.md").write_text(text)
