"""`make bench`: measure everything, or the topics that are named, and write bench/RESULTS.md.

    python -m bench guard exec

A topic that was not measured keeps what the file says of it.
"""

import logging
import sys
from importlib import import_module
from pathlib import Path

from bench.measure import machine
from bench.results import TOPICS, replaced

RESULTS = Path(__file__).with_name("RESULTS.md")

logging.disable(logging.CRITICAL)
wanted = sys.argv[1:] or list(TOPICS)
if unknown := set(wanted) - set(TOPICS):
    sys.exit(f"error: No topic is called {', '.join(sorted(unknown))}. Known: {', '.join(TOPICS)}.")
for topic in wanted:
    section = import_module(f"bench.{topic}").report()
    print(section, flush=True)
    RESULTS.write_text(replaced(RESULTS.read_text(), topic, f"{machine()}.\n\n{section}"))
