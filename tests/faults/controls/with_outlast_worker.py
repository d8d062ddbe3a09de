"""No fault: a worker of the library on a queue in SQLite, with its results beside it."""

import time

from outlast.queue.opening import open_queue
from outlast.worker.worker import Worker

URL = "sqlite:///jobs.db"


def score(number: int) -> int:
    time.sleep(0.03)
    print("scored", number, flush=True)
    return number * number


queue = open_queue(URL)
queue.publish((f"item-{number:03}", number) for number in range(60))
Worker(queue, URL, lease_seconds=2.0).run(score, chunk=3)
