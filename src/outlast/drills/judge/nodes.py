"""Faults of a program that runs on several nodes, after one of them was evicted. Pure.

All nodes must then exit on their own, and with 75: a JobSet restarts them together, and counts any
other exit code as a failure of the program.
"""

from collections.abc import Iterator

from outlast.drills.judge.crashes import quoted_error
from outlast.drills.judge.verdict import Observations
from outlast.drills.run.records import Attempt, Eviction, NodeExit
from outlast.interruption.exit_codes import INTERRUPTED


def is_world(observed: Observations) -> bool:
    """Whether the command ran on nodes that start and end together."""
    return any(one.nodes for one in observed.job_run.attempts)


def wrong_code(observed: Observations) -> str | None:
    """The first node that exited with another code than 75, and why that is wrong."""
    for eviction, _, one in _ends(observed):
        was_killed = one.node == eviction.node and eviction.killed
        if one.exit_code == INTERRUPTED or one.was_terminated or was_killed:
            continue
        what = "another one gets a notice" if eviction.notice else "another one is lost"
        return (
            f"Node {one.node} exited with code {one.exit_code}, not {INTERRUPTED}, after"
            f" {_described(eviction)}: {quoted_error(one)}. A JobSet counts any other code as a"
            f" failure, and gives up after `maxRestarts` of them. Let all ranks exit with"
            f" {INTERRUPTED} when {what} (`outlast.Run`)."
        )
    return None


def stuck_node(observed: Observations) -> str | None:
    """The first node that kept running after another one was evicted."""
    for eviction, attempt, one in _ends(observed):
        if one.was_terminated:
            seconds = one.ended_seconds - eviction.at_seconds
            return (
                f"Node {one.node} did not exit on its own after {_described(eviction)} in attempt"
                f" {attempt.number}: it was terminated, and ended after {seconds:.0f} s. Its ranks"
                " wait for those that are gone, on accelerators that you pay for. `outlast.Run`"
                " lets all ranks know about a notice, and about a rank that is lost"
                " (OUTLAST_LOST_SECONDS)."
            )
    return None


def all_interrupted(observed: Observations) -> str:
    """What the nodes did, if none of them was at fault."""
    return f"After each eviction of a node, all others exited with {INTERRUPTED}."


def _ends(observed: Observations) -> Iterator[tuple[Eviction, Attempt, NodeExit]]:
    """The nodes of each attempt that an eviction interrupted at work.

    During the startup, nodes wait for each other and cannot know about the eviction.
    """
    attempts = {one.number: one for one in observed.job_run.attempts}
    for eviction in observed.job_run.evictions:
        attempt = attempts[eviction.attempt]
        if eviction.took_effect and not eviction.in_start_up:
            for one in attempt.nodes:
                yield eviction, attempt, one


def _described(eviction: Eviction) -> str:
    how = "SIGTERM to" if eviction.notice else "the silent death of"
    return f"eviction {eviction.number} ({how} node {eviction.node})"
