"""Fault: results are inserted without a look at whether they are there already."""

from tests.faults.controls.queue_of_items import Items, leave_at_once, linger

leave_at_once()
items = Items()
while (name := items.lease()) is not None:
    score = sum(name.encode())
    with items.transaction() as database:
        database.execute("INSERT INTO result (item, score) VALUES (?, ?)", (name, score))
    linger()
    items.acknowledge(name)
    print("stored", name, flush=True)
