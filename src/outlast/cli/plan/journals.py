"""Open the journal of a run for a command, and warn about gaps in it."""

import sys

from outlast.cli.printing import say
from outlast.journal.run_journal import RunJournal
from outlast.measured import open_journal


def open_journal_with_warning(url: str) -> RunJournal:
    journal = open_journal(url)
    if journal.gaps:
        say(
            f"warning: The journal of {journal.url} has gaps ({'; '.join(journal.gaps)}). "
            "The output is based on the rest.",
            file=sys.stderr,
        )
    return journal
