"""A program that writes objects until it is killed, and says so after each one.

Run as `python -m tests.servers.writer write URL COMMIT SEED`; it starts at the first line on its
input. Each object holds its own hash, so that a torn one can be told by anybody.
"""

import hashlib
import itertools
import random
import sys

from outlast.storage import AlreadyExists, Store, open_store
from outlast.storage.local.store import Commit, LocalStore

_HASH_BYTES = 32


def main(url: str, commit: str, seed: str) -> None:
    store = opened(url, commit)
    chance = random.Random(seed)
    say("ready")
    sys.stdin.readline()
    for number in itertools.count():
        body = chance.randbytes(chance.choice((0, 100, 70_000, 1_500_000, 3_000_001)))
        name = f"packs/{seed}-{number:06}"
        store.create(name, [hashlib.sha256(body).digest(), body])
        say(name)


def race(url: str, commit: str, name: str) -> None:
    """Try once to create one object, and say who won."""
    store = opened(url, commit)
    say("ready")
    sys.stdin.readline()
    try:
        store.create("attempts/000001", [name.encode()])
    except AlreadyExists:
        say("lost")
    else:
        say("won")


def opened(url: str, commit: str) -> Store:
    return open_store(url) if commit == "-" else LocalStore(url, commit=Commit[commit])


def is_whole(data: bytes) -> bool:
    """Whether these are all the bytes of an object of `main`."""
    return hashlib.sha256(data[_HASH_BYTES:]).digest() == data[:_HASH_BYTES]


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    {"write": main, "race": race}[sys.argv[1]](*sys.argv[2:])
