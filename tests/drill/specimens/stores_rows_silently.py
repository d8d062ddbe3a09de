"""Keeps its results in a database only, skips the items that are there, and prints nothing."""

import sqlite3

from tests.drill.specimens.habits import STEPS, finish, work

database = sqlite3.connect("results.db", isolation_level=None)
database.execute("CREATE TABLE IF NOT EXISTS result (item INTEGER PRIMARY KEY, score REAL)")
for item in range(3 * STEPS):
    if not database.execute("SELECT 1 FROM result WHERE item = ?", (item,)).fetchone():
        work()
        database.execute("INSERT INTO result VALUES (?, ?)", (item, item / 2))
finish()
