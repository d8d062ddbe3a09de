"""Traces made up by a seed, in the three formats, so that every test of them runs anywhere."""

import json
import random
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 5, tzinfo=UTC)


def steps_trace(seed: int, *, steps: int = 2000, gap_seconds: int = 180) -> str:
    """One machine that comes and goes: many short lives, a few long ones."""
    chance = random.Random(seed)
    data: list[int] = []
    while len(data) < steps:
        up = max(1, round(chance.weibullvariate(25, 0.6)))
        down = max(1, round(chance.expovariate(1 / 12)))
        data += [1] * up + [0] * down
    return json.dumps({"metadata": {"gap_seconds": gap_seconds}, "data": data[:steps]})


def nodes_trace(seed: int, *, hours: float = 24, nodes: int = 12, mean_hours: float = 3) -> str:
    """A pool that is refilled some minutes after each loss."""
    chance = random.Random(seed)
    events: list[tuple[int, str, str]] = []
    count = 0
    for _ in range(nodes):
        now = 0.0
        while now < hours * 3600:
            count += 1
            end = now + chance.expovariate(1 / (mean_hours * 3600))
            events.append((round(now * 1000), "add", f"node{count}"))
            if end < hours * 3600:
                events.append((round(end * 1000), "remove", f"node{count}"))
            now = end + chance.uniform(60, 1800)
    events.sort(key=lambda event: event[0])
    last = round(hours * 3_600_000)
    events.append((last, "add", "last"))
    return "\n".join(f"{at},{action},{node}" for at, action, node in events)


def counts_trace(seed: int, *, hours: float = 24, size: int = 40, backwards: int = 0) -> str:
    """The size of a pool, minute by minute; some lines have a clock that was set back."""
    chance = random.Random(seed)
    count = size
    lines = []
    minutes = round(hours * 60)
    late = set(chance.sample(range(10, minutes), backwards))
    for minute in range(minutes):
        lost = sum(chance.random() < 1 / 240 for _ in range(count))
        count = min(size, count - lost + (chance.random() < 0.25))
        at = START + timedelta(minutes=minute, seconds=-90 if minute in late else 0)
        lines.append(f"{at:%Y-%m-%d}, {at:%H:%M:%S}, {count}")
    return "\n".join(lines)
