"""The tables of a SQLite queue.

Items are never deleted, because their keys are needed for deduplication. `outlast_runs` holds
ranges of items that are ready (lease 0) or leased (a token); delayed and dead items have a row
each. All other items are done. So claiming and acknowledging touch two small pages for a chunk
of any size. Ranges never overlap; they are sorted by their last item, because a claim takes
from the front.

No index has a condition on a column that is looked up by a parameter: SQLite would prepare such a
statement again for every value.
"""

from outlast.databases.sqlite import INTEGER_MAX

FORMAT = 2
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
    before_done INTEGER NOT NULL,
    id TEXT NOT NULL DEFAULT ''
);
INSERT OR IGNORE INTO outlast_queue
VALUES (1, {FORMAT}, '', 0, 9e999, 0, 0, 0, 0, lower(hex(randomblob(16))))
"""
# Format 2 added the ID. Tokens continue from where they were.
UPGRADES = {
    1: (
        "ALTER TABLE outlast_queue ADD COLUMN id TEXT NOT NULL DEFAULT ''",
        "UPDATE outlast_queue SET format = 2, id = lower(hex(randomblob(16)))",
    )
}
TABLE_MADE_LAST = "outlast_queue"


def _is_integer(name: str, least: int = 0) -> str:
    return f"typeof({name}) = 'integer' AND {name} BETWEEN {least} AND {INTEGER_MAX}"


def _is_number(name: str) -> str:
    return f"typeof({name}) IN ('real', 'integer')"


# Values that could make a worker wait forever. All others are checked when they are read.
FIND_DAMAGE = f"""
SELECT 'an item number in outlast_items' WHERE coalesce((
    SELECT max(number) FROM outlast_items
), 0) NOT BETWEEN 0 AND {INTEGER_MAX}
UNION ALL SELECT 'a row of outlast_runs' WHERE EXISTS (
    SELECT 1 FROM outlast_runs WHERE NOT (
        {_is_integer("lease")} AND {_is_integer("first", 1)} AND {_is_integer("last", 1)}
        AND first <= last AND last <= (SELECT coalesce(max(number), 0) FROM outlast_items)
        AND {_is_number("until")} AND {_is_number("published")}
    )
)
UNION ALL SELECT 'a row of outlast_delayed' WHERE EXISTS (
    SELECT 1 FROM outlast_delayed WHERE NOT ({_is_number("due")} AND {_is_integer("item", 1)})
)
"""
