"""No fault: results are stored under the key of their item, then the item is acknowledged."""

from tests.faults.controls.queue_of_items import Items, compute, leave_at_once

leave_at_once()
items = Items()
while (name := items.lease()) is not None:
    score = compute(name)
    with items.transaction() as database:
        if not database.execute("SELECT 1 FROM result WHERE item = ?", (name,)).fetchone():
            database.execute("INSERT INTO result (item, score) VALUES (?, ?)", (name, score))
        database.execute("DELETE FROM item WHERE name = ?", (name,))
    print("stored", name, flush=True)
