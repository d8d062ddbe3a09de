"""The three clocks of a leg. Time is an argument."""

from outlast.drill.schedule import Clock


class Clocks:
    """Seconds since the start of the leg, by the wall, with a node alive, and with one at work."""

    def __init__(self, *, now: float) -> None:
        self._now = now
        self._began = now
        self._seconds = {Clock.WALL: 0.0, Clock.ALIVE: 0.0, Clock.WORK: 0.0}

    def advance(self, now: float, *, alive: bool, working: bool) -> None:
        """Count the time since the last call; `alive` and `working` describe what was then."""
        passed = now - self._now
        self._now = now
        self._seconds[Clock.WALL] = now - self._began
        if alive:
            self._seconds[Clock.ALIVE] += passed
        if working:
            self._seconds[Clock.WORK] += passed

    def seconds(self, clock: Clock) -> float:
        return self._seconds[clock]

    def since_start(self, now: float) -> float:
        return now - self._began
