"""The channel over torch's store, as far as it needs no torch."""

import threading

import pytest

from outlast.ranks import torch_channel
from outlast.ranks.errors import ChannelLost


class FrozenStore:
    """Its process accepts connections, because the kernel does that for it, and never answers."""

    def __init__(self) -> None:
        self.thawed = threading.Event()

    def clone(self) -> "FrozenStore":
        self.thawed.wait()
        return self


def test_a_frozen_store_does_not_keep_a_rank_that_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_channel, "_CONNECT_SECONDS_MAX", 0.05)
    store = FrozenStore()

    try:
        with pytest.raises(ChannelLost, match="has accepted no connection for 0 s"):
            torch_channel._clone(store)
    finally:
        store.thawed.set()
