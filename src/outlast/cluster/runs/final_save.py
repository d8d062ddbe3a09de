"""What a stopped run has saved, from its journal."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from outlast._base.backoff import backoff_seconds
from outlast.cluster.errors import shown
from outlast.cluster.runs.journals import JournalReader, JournalReading
from outlast.journal.attempt import Ending
from outlast.journal.derive import JournalSummary

_TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalSave:
    """`is_complete` if all work is saved. `step` is None if it is not known, or has parts."""

    is_complete: bool
    step: int | None
    text: str


def read_final_save(url: str, *, sleep: Callable[[float], object] = time.sleep) -> FinalSave:
    """Read the journal until every attempt has an end, or for a few seconds at most.

    The last events are written before a process exits. A store that is listed late may show them
    a moment after that.
    """
    if not url:
        return FinalSave(
            is_complete=False,
            step=None,
            text="Stopped. What it has saved is not known, because its journal was not found: pass "
            "--journal URL.",
        )
    reader, reading = JournalReader(url), JournalReading(url=url)
    for tries in range(_TRIES):
        if tries:
            sleep(backoff_seconds(tries, 0.25, 4.0))
        reading = reader.look(reading)
        summaries = [journal.summary for journal in reading.journals]
        if summaries and not any(_is_open(one) for one in summaries):
            break
        if reading.problem and tries:
            # Each look has already been tried several times.
            break
    return final_save_in([journal.summary for journal in reading.journals], reading)


def final_save_in(summaries: list[JournalSummary], reading: JournalReading) -> FinalSave:
    """What the newest attempts have saved."""
    if reading.problem:
        said = shown(reading.problem, characters_max=300)
        text = f"Stopped. What it has saved is not known: {said}"
        return FinalSave(is_complete=False, step=None, text=text)
    if not summaries:
        text = f"Stopped. It has saved nothing: {reading.url} has no journal."
        return FinalSave(is_complete=False, step=None, text=text)
    newest = [summary.attempts[-1] for summary in summaries]
    is_complete = all(one.kept_all and one.ending is not Ending.OPEN for one in newest)
    step = newest[0].saved_step if len(newest) == 1 else None
    if len(newest) > 1:
        saved = sum(one.kept_all and one.ending is not Ending.OPEN for one in newest)
        text = f"Stopped. {saved} of {len(newest)} parts have saved all their work."
    elif is_complete:
        text = f"Stopped. All work is saved, up to step {newest[0].last_step:,}."
    elif step is None:
        text = "Stopped. The last attempt has saved nothing; it resumes from an earlier checkpoint."
    else:
        lost = max(0, newest[0].last_step - step)
        text = f"Stopped without a final save: {lost:,} steps after step {step:,} are repeated."
    return FinalSave(is_complete=is_complete, step=step, text=text)


def _is_open(summary: JournalSummary) -> bool:
    return summary.attempts[-1].ending is Ending.OPEN
