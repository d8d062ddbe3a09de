"""Several simulated nodes that run one program, and end and restart together, as in a JobSet.

Only one of them is evicted. The others should then exit on their own. Those that do not are
terminated, as a JobSet does before it recreates all Pods. If the drill itself is killed: the nodes
end too, where the system can tie them together.
"""

import math
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.drills.run import outputs
from outlast.drills.run.node import Isolation, NodeEnd, SimulatedNode
from outlast.drills.run.records import NodeExit, SigtermHandling


@dataclass(frozen=True, kw_only=True, slots=True)
class SurvivorLimits:
    """How long the other nodes have to exit on their own after a notice to one, or its death.

    `grace_seconds` is the time from SIGTERM to SIGKILL for those that have not.
    """

    after_notice_seconds: float
    after_death_seconds: float
    grace_seconds: float


@dataclass(kw_only=True, slots=True)
class _Member:
    """A node of the world. Times are monotonic."""

    node: SimulatedNode
    log: Path
    end: NodeEnd | None = None
    ended_at: float = math.inf
    terminated_at: float = math.inf
    killed: bool = False

    @property
    def exit_code(self) -> int:
        """0 while it is running."""
        return 0 if self.end is None else self.end.exit_code


class SimulatedWorld:
    """Running nodes, numbered from 0. Call `kill` and wait for `ended` to remove them."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        isolation: Isolation,
        folder: Path,
        environs: Sequence[Mapping[str, str]],
        logs: Sequence[Path],
        limits: SurvivorLimits,
    ) -> None:
        self._limits = limits
        self._members: list[_Member] = []
        self._evicted: int | None = None
        self._leave_by: float | None = None
        try:
            for environ, log in zip(environs, logs, strict=True):
                node = SimulatedNode(
                    command, isolation=isolation, folder=folder, environ=environ, log=log
                )
                self._members.append(_Member(node=node, log=log))
        except BaseException:
            self.kill()
            raise
        self._poll = self._registered()

    @property
    def fd(self) -> int | None:
        """Becomes readable when a node has ended; None where the system does not support it."""
        return None if self._poll is None else self._poll.fileno()

    def ended(self) -> NodeEnd | None:
        """How it ended, once all nodes have. Terminates nodes that outstay their time."""
        now = time.monotonic()
        for one in self._members:
            if one.end is None and (end := one.node.ended()) is not None:
                one.end, one.ended_at = end, now
        ends = [one.end for one in self._members if one.end is not None]
        if len(ends) < len(self._members):
            self._stop_survivors(now)
            return None
        if self._poll is not None:
            self._poll.close()
            self._poll = None
        return NodeEnd(
            exit_code=self._exit_code(),
            cpu_seconds=sum(end.cpu_seconds for end in ends),
            left_behind=sum(end.left_behind for end in ends),
        )

    def handling(self) -> SigtermHandling:
        """How the first processes of all nodes would handle SIGTERM now."""
        found = {one.node.handling() for one in self._members}
        return found.pop() if len(found) == 1 else SigtermHandling.UNKNOWN

    def cpu_seconds(self) -> float:
        """The CPU time of all processes that are running on the nodes."""
        return sum(one.node.cpu_seconds() for one in self._members if one.end is None)

    def choose(self, node: int) -> SimulatedNode:
        """The node to evict."""
        self._evicted = node
        return self._members[node].node

    def expect_end(self, *, notice: bool, now: float) -> None:
        """From now on, the nodes that were not evicted have a limited time to exit."""
        limits = self._limits
        seconds = limits.after_notice_seconds if notice else limits.after_death_seconds
        self._leave_by = now + seconds

    def kill(self) -> None:
        """Kill all nodes at once."""
        for one in self._members:
            one.node.kill()

    @property
    def evicted_node_ended_at(self) -> float | None:
        """When the evicted node had ended; None if none was evicted."""
        return None if self._evicted is None else self._members[self._evicted].ended_at

    @property
    def telling_log(self) -> Path:
        """The log of the node that failed first, if any; otherwise that of the first node."""
        return (*self._failed(), *self._members)[0].log

    def exits(self, *, began: float) -> tuple[NodeExit, ...]:
        """How each node ended, once all have."""
        return tuple(
            NodeExit(
                node=number,
                exit_code=one.end.exit_code,
                ended_seconds=one.ended_at - began,
                output_tail=outputs.tail(one.log, launched=True),
                was_terminated=one.terminated_at < math.inf,
            )
            for number, one in enumerate(self._members)
            if one.end is not None
        )

    def _exit_code(self) -> int:
        """0 only if all nodes exited with 0; else that of the evicted or the first failed node."""
        evicted = [] if self._evicted is None else [self._members[self._evicted]]
        first = next((one for one in (*evicted, *self._failed()) if one.exit_code != 0), None)
        return 0 if first is None else first.exit_code

    def _failed(self) -> list[_Member]:
        """The nodes that have ended with another exit code than 0, the first to end first."""
        failed = [one for one in self._members if one.exit_code != 0]
        return sorted(failed, key=lambda one: one.ended_at)

    def _stop_survivors(self, now: float) -> None:
        """Terminate and kill the nodes that are still running after another one has failed."""
        if now < self._survivors_until():
            return
        for number, one in enumerate(self._members):
            if one.end is not None or number == self._evicted:
                continue
            if one.terminated_at == math.inf:
                one.terminated_at = now
                one.node.terminate()
            elif now >= one.terminated_at + self._limits.grace_seconds and not one.killed:
                one.killed = True
                one.node.kill()

    def _survivors_until(self) -> float:
        if self._leave_by is not None:
            return self._leave_by
        return next((one.ended_at for one in self._failed()), math.inf)

    def _registered(self) -> "select.epoll | None":
        """What becomes readable when any of the nodes has ended."""
        fds = [one.node.fd for one in self._members]
        if None in fds or not hasattr(select, "epoll"):
            return None
        poll = select.epoll()
        for fd in fds:
            if fd is not None:
                poll.register(fd, select.EPOLLIN)
        return poll
