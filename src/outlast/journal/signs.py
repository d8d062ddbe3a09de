"""How often a running attempt writes a sign of life to its journal.

A kill writes nothing, so the time until the last sign is all that is known of a killed attempt. The
pause grows with the age of the attempt: the end of a short attempt is known to the second, that of
a long one to 20 seconds. An attempt writes about 160 signs in its first 13 minutes and 180 per hour
after that. On an object store, each is one write request: at 0.005 USD per 1,000 (class A,
regional: cloud.google.com/storage/pricing-examples), the 4,400 requests of a day cost 0.022 USD.
"""

PAUSE_SECONDS_MIN = 1.0
PAUSE_SECONDS_MAX = 20.0
_SHARE_OF_AGE = 1 / 40


def sign_pause(age_seconds: float) -> float:
    """The seconds until the next sign of life of an attempt of this age."""
    return min(max(age_seconds * _SHARE_OF_AGE, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
