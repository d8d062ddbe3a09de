"""Inserts every result again at each start."""

import sqlite3

from tests.drill.specimens.habits import STEPS, finish, work

database = sqlite3.connect("results.db", isolation_level=None)
database.execute("CREATE TABLE IF NOT EXISTS result (item INTEGER, score REAL)")
for item in range(STEPS):
    work()
    print("item", item)
    database.execute("INSERT INTO result VALUES (?, ?)", (item, item / 2))
finish()
