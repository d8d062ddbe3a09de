"""The tables of a PostgreSQL queue, and every statement on them.

Items are never deleted from `outlast_items`, because their keys are needed for deduplication. Until
an item is done, its ID is in exactly one other table: ready, returned, delayed, a group of
suspects, a lease, or dead. A lease is one row with the IDs of its chunk, so creating, extending and
ending it touches one row for a chunk of any size. Only the database's clock is used, through
`statement_timestamp()`, which works with an index.

No statement of a worker or of `stats` takes longer because more items are ready or done. Done items
are counted in the rows of sessions, and ready ones are all the others. The rows that claims delete
stay in the index of `outlast_ready` until the server vacuums it, which it cannot do while any older
transaction runs, such as one that publishes millions of items. So a claim starts where the last one
of its process found items. Items that come back are in a table of their own, `outlast_returned`,
which is read from its start.
"""

from outlast.queue.items import ERRORS_KEPT

SCHEMA_VERSION = 2
# Arbitrary numbers that other users of advisory locks are unlikely to choose.
SCHEMA_LOCK = 7_310_287_405_112_501
PUBLISH_LOCK = 7_310_287_405_112_504

MAKE_TABLES = f"""
CREATE TABLE IF NOT EXISTS outlast_items (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE,
    payload text NOT NULL,
    failures integer NOT NULL DEFAULT 0,
    errors text[] NOT NULL DEFAULT '{{}}',
    published_at timestamptz NOT NULL DEFAULT statement_timestamp()
);
CREATE TABLE IF NOT EXISTS outlast_ready (id bigint PRIMARY KEY)
    WITH (autovacuum_vacuum_scale_factor = 0.01);
CREATE TABLE IF NOT EXISTS outlast_returned (id bigint PRIMARY KEY)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE IF NOT EXISTS outlast_delayed (id bigint PRIMARY KEY, until timestamptz NOT NULL);
CREATE INDEX IF NOT EXISTS outlast_delayed_until ON outlast_delayed (until);
CREATE TABLE IF NOT EXISTS outlast_groups (first_id bigint PRIMARY KEY, ids bigint[] NOT NULL);
CREATE TABLE IF NOT EXISTS outlast_leases (
    token bigint PRIMARY KEY,
    ids bigint[] NOT NULL,
    is_alone boolean NOT NULL,
    worker text NOT NULL,
    expires timestamptz NOT NULL,
    session uuid NOT NULL,
    request bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS outlast_leases_expires ON outlast_leases (expires);
CREATE TABLE IF NOT EXISTS outlast_dead (id bigint PRIMARY KEY, died_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS outlast_sessions (
    session uuid PRIMARY KEY,
    request bigint NOT NULL,
    used_at timestamptz NOT NULL,
    since timestamptz NOT NULL,
    done bigint NOT NULL,
    before_seconds float8 NOT NULL,
    before_done bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS outlast_queue (
    version integer PRIMARY KEY,
    published bigint NOT NULL
);
ALTER TABLE outlast_queue ADD COLUMN IF NOT EXISTS id text NOT NULL DEFAULT '';
ALTER TABLE outlast_queue ADD COLUMN IF NOT EXISTS done bigint NOT NULL DEFAULT 0;
ALTER TABLE outlast_sessions ADD COLUMN IF NOT EXISTS done_in_all bigint NOT NULL DEFAULT 0;
ALTER TABLE outlast_sessions ADD COLUMN IF NOT EXISTS known_id bigint NOT NULL DEFAULT 0;
CREATE SEQUENCE IF NOT EXISTS outlast_tokens;
INSERT INTO outlast_queue (version, published)
    SELECT {SCHEMA_VERSION}, 0 WHERE NOT EXISTS (SELECT FROM outlast_queue);
UPDATE outlast_queue SET version = 2 WHERE version = 1;
UPDATE outlast_queue SET done = published
    - (SELECT count(*) FROM outlast_ready)
    - (SELECT count(*) FROM outlast_delayed)
    - (SELECT coalesce(sum(cardinality(ids)), 0) FROM outlast_groups)
    - (SELECT coalesce(sum(cardinality(ids)), 0) FROM outlast_leases)
    - (SELECT count(*) FROM outlast_dead)
"""
# A queue keeps its first ID. Version 1 had none.
NAME_QUEUE = "UPDATE outlast_queue SET id = %s WHERE id = ''"

FIND_TABLES = """
SELECT to_regclass('outlast_queue') IS NOT NULL, to_regclass('outlast_returned') IS NOT NULL
"""
READ_VERSION = "SELECT version FROM outlast_queue"
READ_ID = "SELECT id FROM outlast_queue"
# What they have done still counts.
FORGET_SESSIONS = """
WITH forgotten AS (
    DELETE FROM outlast_sessions WHERE used_at < statement_timestamp() - interval '2 days'
    RETURNING done_in_all
), counted AS (
    SELECT sum(done_in_all) AS done FROM forgotten HAVING count(*) > 0
)
UPDATE outlast_queue SET done = outlast_queue.done + counted.done FROM counted
"""

PUBLISH_BESIDE_OTHERS = f"SELECT pg_advisory_xact_lock_shared({PUBLISH_LOCK})"
PUBLISH_ALONE = f"SELECT pg_advisory_xact_lock({PUBLISH_LOCK})"
PUBLISH = """
WITH added AS (
    INSERT INTO outlast_items (key, payload)
    SELECT key, payload
    FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS given (key, payload, number)
    ORDER BY number
    ON CONFLICT (key) DO NOTHING
    RETURNING id
), waiting AS (
    INSERT INTO outlast_ready SELECT id FROM added
)
SELECT count(*) FROM added
"""
COUNT_PUBLISHED = "UPDATE outlast_queue SET published = published + %s"

# Each transaction that claims or settles starts with one of the next three, which notes whether the
# request is new and the lease holds the items. An expired lease holds them until a claim takes
# them. The last statement divides by what was noted, which rolls everything back if something is
# wrong. A request is done once: if its answer is lost, it is sent again, waits here for the first
# one to end, and finds that it was done.
_BEGUN = """
begun AS (
    INSERT INTO outlast_sessions AS known
    VALUES (
        %(session)s, %(request)s, statement_timestamp(), statement_timestamp(), %(done)s, 0, 0,
        %(done)s, %(known)s
    )
    ON CONFLICT (session) DO UPDATE SET
        request = excluded.request,
        used_at = excluded.used_at,
        known_id = excluded.known_id,
        done_in_all = known.done_in_all + excluded.done_in_all,
        (since, done, before_seconds, before_done) = (
            SELECT
                CASE WHEN age < 60 THEN known.since ELSE excluded.since END,
                CASE WHEN age < 60 THEN known.done + excluded.done ELSE excluded.done END,
                CASE WHEN age < 60 THEN known.before_seconds WHEN age < 300 THEN age ELSE 0 END,
                CASE WHEN age < 60 THEN known.before_done WHEN age < 300 THEN known.done ELSE 0 END
            FROM (SELECT extract(epoch FROM excluded.since - known.since)::float8) AS _ (age)
        )
    WHERE known.request < excluded.request
    RETURNING 1
)
"""
_NOTED = """
SELECT is_new, is_held, set_config('outlast.sound', (is_new * is_held)::text, true)
FROM (SELECT count(*) FROM begun) AS _ (is_new), (SELECT count(*) FROM held) AS __ (is_held)
"""
BEGIN_CLAIM = f"WITH {_BEGUN}, held AS (SELECT 1) {_NOTED}"
BEGIN_TAKING_ALL = f"""
WITH {_BEGUN}, held AS (
    DELETE FROM outlast_leases
    WHERE token = %(token)s AND cardinality(ids) = %(count)s
    RETURNING 1
)
{_NOTED}
"""
BEGIN_TAKING_SOME = f"""
WITH {_BEGUN}, lease AS MATERIALIZED (
    SELECT ids FROM outlast_leases WHERE token = %(token)s FOR UPDATE
), rest AS MATERIALIZED (
    SELECT ids AS before, ARRAY(
        SELECT id FROM unnest(ids) WITH ORDINALITY AS _ (id, number)
        WHERE id <> ALL (%(ids)s::bigint[]) ORDER BY number
    ) AS ids
    FROM lease
), held AS (
    UPDATE outlast_leases SET ids = rest.ids FROM rest
    WHERE token = %(token)s AND cardinality(before) - cardinality(rest.ids) = %(count)s
    RETURNING 1
)
{_NOTED}
"""
END_EMPTY = "DELETE FROM outlast_leases WHERE token = %s AND ids = '{}'"

_ERRORS_WITH = (
    f"(known.errors || {{}})[greatest(1, cardinality(known.errors) - {ERRORS_KEPT - 2}):]"
)
_SOUND = "current_setting('outlast.sound')"
_IS_SOUND = f"{_SOUND} = '1'"

FAIL = f"""
WITH failed AS (
    UPDATE outlast_items AS known
    SET failures = known.failures + 1, errors = {_ERRORS_WITH.format("given.error")}
    FROM unnest(%(ids)s::bigint[], %(errors)s::text[], %(delays)s::float8[], %(finals)s::integer[])
        AS given (id, error, delay, is_final)
    WHERE known.id = given.id AND {_IS_SOUND}
    RETURNING known.id, delay, is_final = 1 OR known.failures >= %(failures_max)s AS is_dead
), dead AS (
    INSERT INTO outlast_dead SELECT id, statement_timestamp() FROM failed WHERE is_dead
), delayed AS (
    INSERT INTO outlast_delayed
    SELECT id, statement_timestamp() + make_interval(secs => delay)
    FROM failed WHERE NOT is_dead AND delay > 0
)
INSERT INTO outlast_returned SELECT id FROM failed WHERE NOT is_dead AND delay <= 0
"""
RELEASE = f"INSERT INTO outlast_returned SELECT unnest(%s::bigint[]) WHERE {_IS_SOUND}"
RELEASE_GROUP = f"""
INSERT INTO outlast_groups
SELECT ids[1], ids FROM (SELECT %s::bigint[]) AS _ (ids) WHERE {_IS_SOUND}
"""

_EXPIRED_LINE = """(
    to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    || ' ' || worker || ': ' || %(expired_alone)s::text
)"""
# Before a claim, delayed items that are due and items of expired leases come back. Of those that
# have been due for longer than `seconds`, an earlier look has found all but those that others had
# locked. Leaving them out spares reading the rows of leases that ended without a vacuum since. The
# answer is whether that was all.
_DUE_MAX = 1000
_EXPIRED_MAX = 100
_LOOKED_AT = "statement_timestamp() - make_interval(secs => %(seconds)s)"
BRING_BACK = f"""
WITH due AS (
    DELETE FROM outlast_delayed WHERE id = ANY (ARRAY(
        SELECT id FROM outlast_delayed
        WHERE until <= statement_timestamp() AND until > {_LOOKED_AT}
        ORDER BY until LIMIT {_DUE_MAX} FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
), woken AS (
    INSERT INTO outlast_returned SELECT id FROM due
), expired AS (
    DELETE FROM outlast_leases WHERE token = ANY (ARRAY(
        SELECT token FROM outlast_leases
        WHERE expires <= statement_timestamp() AND expires > {_LOOKED_AT}
        ORDER BY expires LIMIT {_EXPIRED_MAX} FOR UPDATE SKIP LOCKED
    ))
    RETURNING ids, worker, (cardinality(ids) + 1) / 2 AS middle
), halves AS (
    INSERT INTO outlast_groups
    SELECT half[1], half
    FROM expired, LATERAL (VALUES (ids[:middle]), (ids[middle + 1:])) AS _ (half)
    WHERE cardinality(ids) > 1
), alone AS (
    UPDATE outlast_items AS known
    SET failures = failures + 1, errors = {_ERRORS_WITH.format(_EXPIRED_LINE)}
    FROM expired WHERE cardinality(ids) = 1 AND known.id = ids[1]
    RETURNING known.id, known.failures >= %(failures_max)s AS is_dead
), dead AS (
    INSERT INTO outlast_dead SELECT id, statement_timestamp() FROM alone WHERE is_dead
), suspected AS (
    INSERT INTO outlast_groups SELECT id, ARRAY[id] FROM alone WHERE NOT is_dead
)
SELECT (SELECT count(*) FROM due) < {_DUE_MAX} AND (SELECT count(*) FROM expired) < {_EXPIRED_MAX}
"""

# A sequence, because with a counter in a row all claims would wait for each other's commit.
_NEXT_TOKEN = "nextval('outlast_tokens')"
# Items are taken from `first` on, and from before it only if there are too few.
CLAIM = f"""
WITH suspects AS MATERIALIZED (
    SELECT first_id, ids FROM outlast_groups ORDER BY first_id LIMIT 1 FOR UPDATE SKIP LOCKED
), cut AS (
    DELETE FROM outlast_groups USING suspects WHERE outlast_groups.first_id = suspects.first_id
), left_over AS (
    INSERT INTO outlast_groups SELECT ids[%(limit)s + 1], ids[%(limit)s + 1:] FROM suspects
    WHERE cardinality(ids) > %(limit)s
), returned AS (
    DELETE FROM outlast_returned WHERE id = ANY (ARRAY(
        SELECT id FROM outlast_returned WHERE NOT EXISTS (SELECT FROM suspects)
        ORDER BY id LIMIT %(limit)s / {_SOUND}::integer FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
), ready AS (
    DELETE FROM outlast_ready WHERE id = ANY (ARRAY(
        SELECT id FROM outlast_ready WHERE id >= %(first)s AND NOT EXISTS (SELECT FROM suspects)
        ORDER BY id LIMIT %(limit)s - (SELECT count(*) FROM returned) FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
), earlier AS (
    DELETE FROM outlast_ready WHERE id = ANY (ARRAY(
        SELECT id FROM outlast_ready WHERE id < %(first)s AND NOT EXISTS (SELECT FROM suspects)
        ORDER BY id LIMIT %(limit)s - (SELECT count(*) FROM returned) - (SELECT count(*) FROM ready)
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
), taken AS (
    SELECT id FROM returned UNION ALL SELECT id FROM ready UNION ALL SELECT id FROM earlier
), chosen AS (
    SELECT ids[:%(limit)s] AS ids, true AS is_alone FROM suspects
    UNION ALL SELECT array_agg(id ORDER BY id), false FROM taken HAVING count(*) > 0
), lease AS (
    INSERT INTO outlast_leases
    SELECT {_NEXT_TOKEN}, ids, is_alone, %(worker)s,
        statement_timestamp() + make_interval(secs => %(seconds)s), %(session)s, %(request)s
    FROM chosen
    RETURNING token, ids, is_alone, expires
)
SELECT key, payload, failures, id, token, is_alone, %(seconds)s::float8
FROM lease JOIN outlast_items ON id = ANY (ids) ORDER BY id
"""
VERIFY = f"SELECT 1 / {_SOUND}::integer"

WAS_DONE = "SELECT EXISTS (SELECT FROM outlast_sessions WHERE session = %s AND request = %s)"
FIND_LEASE = """
SELECT key, payload, failures, id, token, is_alone,
    extract(epoch FROM expires - statement_timestamp())::float8
FROM outlast_leases JOIN outlast_items ON id = ANY (ids)
WHERE session = %s AND request = %s ORDER BY id
"""

EXTEND = """
UPDATE outlast_leases SET expires = statement_timestamp() + make_interval(secs => %s)
WHERE token = %s
"""

# What is neither done, delayed, leased nor dead is ready. The oldest ready item is looked for where
# the claims of the last seconds looked.
STATS = """
SELECT
    (SELECT published FROM outlast_queue),
    (SELECT done FROM outlast_queue)
        + (SELECT coalesce(sum(done_in_all), 0) FROM outlast_sessions),
    (SELECT count(*) FROM outlast_delayed WHERE until > statement_timestamp()),
    (SELECT coalesce(sum(cardinality(ids)), 0) FROM outlast_leases),
    (SELECT count(*) FROM outlast_dead),
    (SELECT extract(epoch FROM statement_timestamp() - published_at)::float8
        FROM outlast_items WHERE id = (
            SELECT min(id) FROM (
                (SELECT id FROM outlast_ready WHERE id >= (
                    SELECT coalesce(min(known_id), 0) FROM outlast_sessions
                    WHERE used_at > statement_timestamp() - interval '10 seconds'
                ) ORDER BY id LIMIT 1)
                UNION ALL (SELECT id FROM outlast_returned ORDER BY id LIMIT 1)
                UNION ALL (SELECT first_id FROM outlast_groups ORDER BY first_id LIMIT 1)
                UNION ALL (SELECT id FROM outlast_delayed ORDER BY id LIMIT 1)
            ) AS _ (id)
        )),
    (SELECT sum((done + before_done) / greatest(age + before_seconds, 1))
        FROM (
            SELECT *, extract(epoch FROM statement_timestamp() - since)::float8 AS age
            FROM outlast_sessions WHERE used_at > statement_timestamp() - interval '5 minutes'
        ) AS _)
"""

# The server limits the bytes of a page, because the driver keeps all rows of an answer in memory.
DEAD_LETTERS = """
SELECT id, key, payload, failures, errors
FROM (
    SELECT *, sum(bytes) OVER (ORDER BY id) - bytes AS bytes_before
    FROM (
        SELECT id, key, payload, failures, errors,
            octet_length(payload) + octet_length(errors::text) AS bytes
        FROM outlast_dead JOIN outlast_items USING (id)
        WHERE id > %s ORDER BY id LIMIT %s
    ) AS page
) AS measured
WHERE bytes_before < %s ORDER BY id
"""
_RETRY = """
WITH retried AS (
    DELETE FROM outlast_dead WHERE id = ANY (ARRAY({chosen} FOR UPDATE SKIP LOCKED)) RETURNING id
), forgiven AS (
    UPDATE outlast_items SET failures = 0, errors = '{{}}' FROM retried
    WHERE outlast_items.id = retried.id
), ready AS (
    INSERT INTO outlast_returned SELECT id FROM retried
)
SELECT count(*), max(id) FROM retried
"""
RETRY_DEAD_AFTER = _RETRY.format(
    chosen="SELECT id FROM outlast_dead WHERE id > %s ORDER BY id LIMIT %s"
)
RETRY_DEAD_NAMED = _RETRY.format(
    chosen="""SELECT id FROM outlast_dead WHERE id = ANY (ARRAY(
        SELECT id FROM outlast_items WHERE key = ANY (%s::text[])
    ))"""
)
