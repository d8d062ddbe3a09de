"""Fault: results are inserted without a look at whether they are there already."""

import time

from tests.faults.controls.queue_of_items import (
    COMPUTE_SECONDS,
    Items,
    leave_at_once,
)

leave_at_once()
items = Items()
while (name := items.lease()) is not None:
    score = sum(name.encode())
    with items.transaction() as database:
        database.execute("INSERT INTO result (item, score) VALUES (?, ?)", (name, score))
    time.sleep(COMPUTE_SECONDS)
    items.acknowledge(name)
    print("stored", name, flush=True)
