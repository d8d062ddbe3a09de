"""The tables of a queue in SQLite.

Items stay for ever, because their keys tell what is known. Everything that is not done is in a run:
a range of items that wait (lease 0) or are leased (a token), or, one by one, delayed or dead. The
rest is done. So a claim and an acknowledgement touch two small pages, however large the chunk. Runs
never overlap; they are sorted by their last item, because a claim takes from the front.

No index has a condition on a column that is looked up by a parameter: SQLite would prepare such a
statement anew for every value.
"""

FORMAT = 1
READY = 0

SCHEMA = f"""\
CREATE TABLE IF NOT EXISTS outlast_items (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    payload TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS outlast_runs (
    lease INTEGER NOT NULL,
    last INTEGER NOT NULL,
    first INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    suspects INTEGER NOT NULL,
    published REAL NOT NULL,
    until REAL NOT NULL,
    worker TEXT NOT NULL,
    PRIMARY KEY (lease, last)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outlast_delayed (
    due REAL NOT NULL,
    item INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    published REAL NOT NULL,
    PRIMARY KEY (due, item)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outlast_failures (
    item INTEGER NOT NULL,
    number INTEGER NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (item, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outlast_dead (
    item INTEGER PRIMARY KEY,
    failures INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS outlast_queue (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    format INTEGER NOT NULL,
    boot TEXT NOT NULL,
    token INTEGER NOT NULL,
    wakes REAL NOT NULL,
    since REAL NOT NULL,
    done INTEGER NOT NULL,
    before_seconds REAL NOT NULL,
    before_done INTEGER NOT NULL
);
INSERT OR IGNORE INTO outlast_queue VALUES (1, {FORMAT}, '', 0, 9e999, 0, 0, 0, 0)
"""
TABLE_MADE_LAST = "outlast_queue"
