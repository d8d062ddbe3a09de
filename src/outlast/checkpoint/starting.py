"""Start an attempt: claim its number, learn from earlier attempts, and restore the state.

Several ranks are one attempt, which rank 0 claims. All of them resume from one checkpoint or none.
If killed: the number stays taken, and the next attempt starts in the same way.
"""

import contextlib
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointError, CheckpointsMissing
from outlast.checkpoint.format.manifest import MANIFESTS, PACKS, attempt_of_pack
from outlast.checkpoint.format.root import AnyManifest
from outlast.checkpoint.ranks import START_SECONDS_MAX, RankGroup
from outlast.checkpoint.restoring.group_resume import resume_together
from outlast.checkpoint.restoring.resume import Resumption, StateFiller, resume_newest
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
from outlast.journal.writer import JournalWriter
from outlast.storage import Store

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


def start_attempt(
    store: Store, filler: StateFiller, group: RankGroup | None = None
) -> StartedAttempt:
    """Claim the next attempt and fill the state from the newest checkpoint that verifies."""
    if group is None:
        return _start(store, partial(_resume, store, filler))
    if group.rank == 0:
        return _lead(store, filler, group)
    return _follow(store, filler, group)


def _start(
    store: Store,
    resume: Callable[[History, Mapping[str, AnyManifest]], Resumption | None],
    on_claim: Callable[[int], str] = lambda _: "",
    world_size: int = 1,
) -> StartedAttempt:
    # At once, because each request to a distant store takes its time. All of it only reads.
    with ThreadPoolExecutor(2, thread_name_prefix="outlast-start") as pool:
        listing = pool.submit(fence.numbers, store)
        reading = pool.submit(_newest_manifest, store)
        refuse_without_key(store)
        listed = listing.result()
        newest = max(listed, default=0)
        facts, history = _learn(store, newest)
        known = reading.result()
    attempt = fence.claim(store, after=newest, facts=facts)
    world_id = on_claim(attempt)
    journal = JournalWriter(store, attempt, signs_of_life=True)
    journal.record(
        events.AttemptStarted(
            at=events.utc_now(),
            attempt=attempt,
            host=socket.gethostname(),
            pid=os.getpid(),
            world_size=world_size,
            **asdict(place_from()),
        )
    )
    try:
        # Another attempt could commit until now, so the checkpoints are listed again.
        resumption = resume(history, known)
    except BaseException as error:
        what = f"{type(error).__name__}: {error}"
        journal.record(events.AttemptFailed(at=events.utc_now(), step=0, error=what))
        journal.close()
        raise
    if resumption is not None:
        journal.record(_resumed(resumption))
    return StartedAttempt(
        attempt=attempt,
        journal=journal,
        history=history,
        resumption=resumption,
        outdated=fence.outdated(listed),
        world_id=world_id,
    )


def _lead(store: Store, filler: StateFiller, group: RankGroup) -> StartedAttempt:
    """Start as rank 0. What goes wrong before the others are asked for anything, they hear too."""

    def on_claim(attempt: int) -> str:
        world_id = uuid.uuid4().hex
        group.publish("start", {"attempt": attempt, "world_id": world_id})
        return world_id

    def resume(history: History, known: Mapping[str, AnyManifest]) -> Resumption | None:
        return resume_together(
            store,
            filler,
            group,
            known=known,
            check_empty=lambda: _check_empty(store, has_saved=history.has_saved),
        )

    try:
        return _start(store, resume, on_claim, world_size=group.size)
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


def _newest_manifest(store: Store) -> dict[str, AnyManifest]:
    """The manifest that the resume will probably need, by its name; empty if it cannot be read."""
    try:
        name = next(iter(manifest_names(store)), None)
        return {} if name is None else {name: read_manifest(store, name)}
    except OutlastError as error:
        log.debug("Could not read the newest manifest ahead: %s", error)
        return {}


def _resume(
    store: Store, filler: StateFiller, history: History, known: Mapping[str, AnyManifest]
) -> Resumption | None:
    for _ in range(_LISTINGS):
        found = resume_newest(store, filler, known=known)
        if found is not None:
            return found
        if not (history.has_saved or has_committed(store)):
            break
    _check_empty(store, has_saved=history.has_saved)
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
