"""Fault: the item is acknowledged before its result is stored."""

from tests.faults.controls.queue_of_items import Items, append, compute, leave_at_once

leave_at_once()
items = Items()
while (name := items.lease()) is not None:
    items.acknowledge(name)
    append(name, compute(name))
    print("stored", name, flush=True)
