"""How long to wait before the next try. Pure, apart from the randomness."""

import random


def backoff_seconds(tries: int, least_seconds: float, most_seconds: float) -> float:
    """Doubles with each try up to a limit, with jitter so that clients do not retry in step."""
    seconds: float = min(least_seconds * 2.0 ** min(tries, 30), most_seconds)
    return seconds * random.uniform(0.5, 1.0)
