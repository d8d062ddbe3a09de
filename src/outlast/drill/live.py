"""An attempt that is going on: its node, its first sign of life, and what the drill does to it."""

from dataclasses import dataclass
from pathlib import Path

from outlast.drill import outputs
from outlast.drill.node import Node, NodeEnd
from outlast.drill.records import Attempt, Ended, Eviction, Handling
from outlast.drill.schedule import Planned

_SIGKILLED = 137


@dataclass(kw_only=True, slots=True)
class Live:
    """Times are monotonic. `told` is when it was evicted, by a notice or by a kill."""

    number: int
    worker: int
    node: Node
    log: Path
    started: float
    sign: float | None = None
    hears: float | None = None
    ready: float | None = None
    told: float | None = None
    kill_at: float | None = None
    killed: bool = False
    stopping: bool = False
    planned: Planned | None = None
    handling: Handling = Handling.UNKNOWN
    process: str = ""
    hit: bool = False
    in_start_up: bool = False
    replaced: bool = False
    cut_at_save: bool = False
    writing: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()
    lines_cut: int = 0

    @property
    def is_up(self) -> bool:
        """Whether it runs and nobody has told it to stop."""
        return self.told is None and not self.stopping

    @property
    def is_target(self) -> bool:
        return self.is_up and self.ready is not None

    @property
    def cannot_hear_yet(self) -> bool:
        """Whether the notice came before there was anything to hear it."""
        return self.in_start_up and self.handling is Handling.DEFAULT

    @property
    def heard(self) -> bool:
        """Whether there was a notice, and it can have heard it."""
        can_hear = self.handling in (Handling.CAUGHT, Handling.UNKNOWN)
        return self.planned is not None and self.planned.notice and can_hear

    @property
    def works(self) -> bool:
        """Whether it makes progress, as far as can be told: what never heard the notice goes on."""
        goes_on = self.planned is not None and not self.heard
        return self.ready is not None and not self.killed and (self.is_up or goes_on)

    def why_ended(self, exit_code: int) -> Ended:
        if self.stopping:
            return Ended.STOPPED
        if self.planned is not None:
            return Ended.EVICTED
        return Ended.FINISHED if exit_code == 0 else Ended.FAILED

    def attempt(self, end: NodeEnd, *, now: float, began: float) -> Attempt:
        """The record of it, now that it has ended."""
        return Attempt(
            number=self.number,
            worker=self.worker,
            started_seconds=self.started - began,
            sign_seconds=self.sign - began if self.sign is not None else None,
            hears_seconds=self.hears - began if self.hears is not None else None,
            ready_seconds=self.ready - began if self.ready is not None else None,
            ended_seconds=now - began,
            ended=self.why_ended(end.exit_code),
            exit_code=end.exit_code,
            cpu_seconds=end.cpu_seconds,
            output_lines=self.lines_cut + outputs.count_lines(self.log),
            output_tail=outputs.tail(self.log),
            eviction=self.planned.number if self.planned else None,
        )

    def eviction(
        self, end: NodeEnd, *, now: float, began: float, left_done: bool | None = True
    ) -> Eviction | None:
        """The record of the eviction that ended it, if one did.

        `left_done` says whether the work was done when it left with 0; None if nothing shows it.
        """
        if self.planned is None or self.told is None:
            return None
        return Eviction(
            number=self.planned.number,
            attempt=self.number,
            at_seconds=self.told - began,
            moment=self.planned.moment,
            notice=self.planned.notice,
            overlap=self.planned.overlap,
            hit=self.hit,
            in_start_up=self.in_start_up,
            handling=self.handling,
            process=self.process,
            left_seconds=now - self.told,
            # It may have ended by itself in the last moment.
            killed=self.killed and end.exit_code == _SIGKILLED,
            exit_code=end.exit_code,
            work_seconds=max(0.0, self.told - self.ready) if self.ready is not None else 0.0,
            unfinished_zero=left_done is False,
            unproven_zero=left_done is None,
            writing=self.writing,
            torn=self.torn,
        )

    def kill(self) -> None:
        self.killed = True
        self.node.kill()
