"""Start an attempt: claim its number, learn from earlier attempts, and restore the state.

Several ranks are one attempt, which rank 0 claims. All of them resume from one checkpoint or none.
If killed: the number stays taken, and the next attempt starts in the same way.
"""

import contextlib
import os
import socket
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError, CheckpointsMissing
from outlast.checkpoint.format.manifest import MANIFESTS, PACKS, attempt_of_pack
from outlast.checkpoint.format.root import AnyManifest
from outlast.checkpoint.ranks import START_SECONDS_MAX, RankGroup
from outlast.checkpoint.restoring.group_resume import resume_together
from outlast.checkpoint.restoring.resume import (
    Resumption,
    StateFiller,
    resume_from,
    resume_newest,
)
from outlast.checkpoint.runs import fence
from outlast.checkpoint.runs.catalog import (
    has_committed,
    manifest_names,
    read_manifest,
    refuse_without_key,
)
from outlast.checkpoint.runs.history import History, read_history
from outlast.errors import OutlastError
from outlast.journal import events
from outlast.journal.place import place_from
from outlast.journal.process_age import take_process_age
from outlast.journal.writer import JournalWriter
from outlast.storage import NotFound, Store

log = get_logger(__name__)

# A listing can miss a manifest that another live attempt replaces at that moment.
_LISTINGS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedAttempt:
    """An attempt that has claimed its number. `resumption` is None at step 0.

    `history` has the statistics of earlier attempts; `outdated` names attempt files to delete. Only
    rank 0 has a journal. `world_id` is the same on all ranks, and on no others.
    """

    attempt: int
    journal: JournalWriter | None
    history: History
    resumption: Resumption | None
    outdated: list[str]
    world_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claimed:
    """A number that belongs to this attempt, and what was learned on the way."""

    attempt: int
    journal: JournalWriter
    history: History
    outdated: list[str]


def start_attempt(
    store: Store, filler: StateFiller, group: RankGroup | None = None
) -> StartedAttempt:
    """Claim the next attempt and fill the state from the newest checkpoint that verifies."""
    if group is None:
        return _start_alone(store, filler)
    if group.rank == 0:
        return _lead(store, filler, group)
    return _follow(store, filler, group)


def _start_alone(store: Store, filler: StateFiller) -> StartedAttempt:
    """Start as the only process. The state is filled while the attempt is being claimed."""
    with ThreadPoolExecutor(3, thread_name_prefix="outlast-start") as pool:
        key_check = pool.submit(refuse_without_key, store)
        reading = pool.submit(_newest_manifest, store)

        def claim() -> tuple[_Claimed, str | None]:
            claimed = _claim(store, after=(key_check, reading))
            with _failure_recorded(claimed):
                # Until the claim, another attempt could commit a newer one.
                return claimed, _newest_name(store) if reading.result() else None

        claiming = pool.submit(claim)
        key_check.result()
        ahead, error = _fill_ahead(filler, reading.result())
        claimed, newest = claiming.result()
    with _failure_recorded(claimed):
        if error is not None:
            raise error
        if ahead is None or ahead.manifest.name != newest:
            # A checkpoint that was there has been filled in, at least in part.
            has_saved = claimed.history.has_saved or reading.result() is not None
            ahead = _resume(store, filler, has_saved=has_saved)
    return _started(claimed, ahead)


def _fill_ahead(
    filler: StateFiller, manifest: AnyManifest | None
) -> tuple[Resumption | None, BaseException | None]:
    """Fill the state from the checkpoint that is probably the newest; or the error that it raises.

    What cannot be read is tried again, and reported, once the attempt is claimed.
    """
    if manifest is None:
        return None, None
    try:
        return resume_from(manifest, filler), None
    except (CheckpointCorrupt, NotFound) as error:
        log.debug("Could not restore %s ahead: %s", manifest.name, error)
        return None, None
    except BaseException as error:
        return None, error


def _claim(store: Store, *, after: Iterable[Future[Any]], world_size: int = 1) -> _Claimed:
    """Claim the next number, and record in its journal that the attempt has started.

    What it has to come after may raise: then this process must not take the run from another.
    """
    listed = fence.numbers(store)
    # The many requests for the journal would only delay these.
    for one in after:
        one.result()
    newest = max(listed, default=0)
    facts, history = _learn(store, newest)
    attempt = fence.claim(store, after=newest, facts=facts)
    journal = JournalWriter(store, attempt, signs_of_life=True)
    journal.record(
        events.AttemptStarted(
            at=events.utc_now(),
            attempt=attempt,
            host=socket.gethostname(),
            pid=os.getpid(),
            world_size=world_size,
            process_seconds=take_process_age(),
            **asdict(place_from()),
        )
    )
    return _Claimed(
        attempt=attempt, journal=journal, history=history, outdated=fence.outdated(listed)
    )


@contextlib.contextmanager
def _failure_recorded(claimed: _Claimed) -> Iterator[None]:
    """Record an error in the journal of the attempt, and end it."""
    try:
        yield
    except BaseException as error:
        what = f"{type(error).__name__}: {error}"
        claimed.journal.record(events.AttemptFailed(at=events.utc_now(), step=0, error=what))
        claimed.journal.close()
        raise


def _started(
    claimed: _Claimed, resumption: Resumption | None, world_id: str = ""
) -> StartedAttempt:
    if resumption is not None:
        claimed.journal.record(_resumed(resumption))
    return StartedAttempt(
        attempt=claimed.attempt,
        journal=claimed.journal,
        history=claimed.history,
        resumption=resumption,
        outdated=claimed.outdated,
        world_id=world_id,
    )


def _lead(store: Store, filler: StateFiller, group: RankGroup) -> StartedAttempt:
    """Start as rank 0. What goes wrong before the others are asked for anything, they hear too."""
    try:
        with ThreadPoolExecutor(2, thread_name_prefix="outlast-start") as pool:
            key_check = pool.submit(refuse_without_key, store)
            reading = pool.submit(_newest_manifest, store)
            claimed = _claim(store, after=(key_check, reading), world_size=group.size)
        world_id = uuid.uuid4().hex
        with _failure_recorded(claimed):
            group.publish("start", {"attempt": claimed.attempt, "world_id": world_id})
            resumption = resume_together(
                store,
                filler,
                group,
                known=reading.result(),
                check_empty=lambda: _check_empty(store, has_saved=claimed.history.has_saved),
            )
        return _started(claimed, resumption, world_id)
    except Exception as error:
        # If the others have the number of the attempt already, this changes nothing.
        with contextlib.suppress(CheckpointError):
            started = group.claim("start", {"error": str(error)})
            group.raises_together |= "error" in started
        raise


def _follow(store: Store, filler: StateFiller, group: RankGroup) -> StartedAttempt:
    """Start as any other rank."""
    started = group.read("start", START_SECONDS_MAX)
    if "error" in started:
        group.raises_together = True
        raise CheckpointError(f"Rank 0 could not start: {started['error']}")
    refuse_without_key(store)
    return StartedAttempt(
        attempt=started["attempt"],
        journal=None,
        history=History(),
        resumption=resume_together(store, filler, group),
        outdated=[],
        world_id=started["world_id"],
    )


def _learn(store: Store, newest: int) -> tuple[dict[str, object], History]:
    """What the new attempt should store about earlier ones, and their statistics.

    An unreadable journal does not stop a run.
    """
    try:
        settled, history = read_history(store, newest)
    except OutlastError as error:
        log.warning("The journal could not be read: %s", error)
        return {}, History()
    return settled.to_facts(), history


def _newest_manifest(store: Store) -> AnyManifest | None:
    """The manifest that the resume will probably need; None if it cannot be read."""
    try:
        name = _newest_name(store)
        return None if name is None else read_manifest(store, name)
    except OutlastError as error:
        log.debug("Could not read the newest manifest ahead: %s", error)
        return None


def _newest_name(store: Store) -> str | None:
    return next(iter(manifest_names(store)), None)


def _resume(store: Store, filler: StateFiller, *, has_saved: bool) -> Resumption | None:
    for _ in range(_LISTINGS):
        found = resume_newest(store, filler)
        if found is not None:
            return found
        if not (has_saved or has_committed(store)):
            break
    _check_empty(store, has_saved=has_saved)
    return None


def _check_empty(store: Store, *, has_saved: bool) -> None:
    """Raise `CheckpointsMissing` if a run without checkpoints has had some."""
    if not (has_saved or has_committed(store)):
        _warn_of_orphans(store)
        return
    attempts, packs = (len(store.list(folder)) for folder in ("attempts/", PACKS))
    raise CheckpointsMissing(
        f"The run in {store.url} has saved checkpoints before, but {MANIFESTS} is empty. "
        f"Still present: {attempts} files in attempts/ and {packs} in {PACKS}.",
        hint=f"Restore {MANIFESTS} and {PACKS} to continue. To start over from step 0, use "
        f"another URL, or delete everything in {store.url}.",
    )


def _warn_of_orphans(store: Store) -> None:
    """Warn about a start from step 0 next to packs: the checkpoints may have been lost."""
    packs = sum(attempt_of_pack(entry.name) is not None for entry in store.list(PACKS))
    if packs:
        log.warning(
            "Starting from step 0, although %s contains packs from earlier attempts (%d). This is "
            "expected if they were killed before their first save completed. If this run had "
            "checkpoints, stop it now and restore %s, because new saves delete old packs.",
            store.url,
            packs,
            MANIFESTS,
        )


def _resumed(found: Resumption) -> events.Resumed:
    return events.Resumed(
        at=events.utc_now(),
        step=found.manifest.step,
        seconds=found.seconds,
        bytes_read=found.manifest.size_bytes,
        passed_over=tuple(
            events.PassedOver(checkpoint=name, reason=reason) for name, reason in found.passed_over
        ),
    )
