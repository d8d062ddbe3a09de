"""The contract of the channel between ranks, on every backend and on the fake."""

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from outlast.ranks.channel import Channel
from outlast.ranks.errors import ChannelLost
from outlast.testing import MemoryChannels
from tests.patience import PATIENCE_SECONDS, eventually
from tests.programs import Program

ROOT = Path(__file__).parent.parent.parent


@contextlib.contextmanager
def memory_channel() -> Iterator[Channel]:
    yield MemoryChannels().open()


@contextlib.contextmanager
def torch_channel() -> Iterator[Channel]:
    # Imported here, because it takes seconds that other tests need not wait.
    import torch.distributed  # noqa: F401
    from torch._C._distributed_c10d import TCPStore

    from outlast.ranks.torch_channel import TorchChannel

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    channel = TorchChannel(store, "outlast/0")
    yield channel
    channel.close()


@contextlib.contextmanager
def jax_channel() -> Iterator[Channel]:
    from outlast.ranks.jax_channel import JaxChannel
    from tests.servers.ports import free_port

    address = f"127.0.0.1:{free_port()}"
    service, client = jax_pair(import_module("jaxlib._jax"), address)
    channel = JaxChannel(client, "outlast/0")
    yield channel
    channel.close()
    client.shutdown()
    service.shutdown()


def jax_pair(library: ModuleType, address: str) -> tuple[Any, Any]:
    service = library.get_distributed_runtime_service(address, 1)
    client = library.get_distributed_runtime_client(address, 0)
    client.connect()
    return service, client


BACKENDS = {"memory": memory_channel, "torch": torch_channel, "jax": jax_channel}
# JAX does not bear what other tests fork, so it gets a process of its own.
IN_OWN_PROCESS = "CHANNEL_IN_OWN_PROCESS"


@pytest.fixture(
    params=[
        os.environ[IN_OWN_PROCESS],
    ]
    if IN_OWN_PROCESS in os.environ
    else ["memory", pytest.param("torch", marks=pytest.mark.needs("torch"))]
)
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    with BACKENDS[request.param]() as opened:
        yield opened


@pytest.mark.skipif(find_spec("jax") is None, reason="needs jax, which is not installed")
def test_the_channel_of_jax_keeps_the_contract() -> None:
    if IN_OWN_PROCESS in os.environ:
        return
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    with Program(command, env={IN_OWN_PROCESS: "jax"}, folder=ROOT) as program:
        assert program.wait() == 0, program.output


def test_a_key_that_is_not_set_has_no_value(channel: Channel) -> None:
    assert channel.get("absent") is None


def test_what_one_connection_sets_another_gets(channel: Channel) -> None:
    other = channel.connect()

    channel.set("folder/key", bytes(range(256)))

    assert other.get("folder/key") == bytes(range(256))
    other.close()


def test_a_heartbeat_can_be_set_again(channel: Channel) -> None:
    channel.set("beat/0", b"1")
    channel.set("beat/0", b"2")

    assert channel.get("beat/0") == b"2"


def test_the_first_claim_wins_for_all(channel: Channel) -> None:
    other = channel.connect()

    assert channel.claim("key", b"first") == b"first"
    assert other.claim("key", b"second") == b"first"
    assert channel.get("key") == b"first"
    other.close()


def test_of_claims_at_the_same_time_one_wins(channel: Channel) -> None:
    winners: list[bytes] = []
    start = threading.Barrier(4)

    def claim(value: bytes, connection: Channel) -> None:
        start.wait(PATIENCE_SECONDS)
        winners.append(connection.claim("key", value))
        connection.close()

    in_threads = [
        threading.Thread(target=claim, args=(str(number).encode(), channel.connect()))
        for number in range(4)
    ]
    for thread in in_threads:
        thread.start()
    for thread in in_threads:
        thread.join(PATIENCE_SECONDS)

    assert winners == [channel.get("key")] * 4


def test_a_claim_needs_a_value(channel: Channel) -> None:
    with pytest.raises(ValueError, match="needs a value"):
        channel.claim("key", b"")


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_wait_for_what_does_not_come_ends(channel: Channel, seconds: float) -> None:
    channel.set("there", b"1")

    assert not channel.wait(["there", "absent"], seconds)
    assert channel.get("there") == b"1", "The connection can still be used."


def test_a_wait_for_what_is_there_ends_at_once(channel: Channel) -> None:
    channel.set("one", b"1")
    channel.set("two", b"2")

    assert channel.wait(["one", "two"], math.inf)
    assert channel.wait([], 0.0)


@pytest.mark.parametrize("seconds", [PATIENCE_SECONDS, math.inf], ids=["limited", "unlimited"])
def test_a_wait_ends_when_the_last_key_is_set(channel: Channel, seconds: float) -> None:
    waiting = channel.connect()
    results: list[bool] = []
    thread = threading.Thread(
        target=lambda: results.append(waiting.wait(["one", "two"], seconds)), daemon=True
    )
    thread.start()

    channel.set("one", b"1")
    assert not results
    channel.set("two", b"2")

    thread.join(PATIENCE_SECONDS)
    assert results == [True]
    waiting.close()


@pytest.mark.parametrize("seconds", [PATIENCE_SECONDS * 10, math.inf], ids=["limited", "unlimited"])
def test_closing_ends_a_wait_in_another_thread(channel: Channel, seconds: float) -> None:
    waiting = channel.connect()
    errors: list[Exception] = []

    def wait() -> None:
        try:
            waiting.wait(["never"], seconds)
        except ChannelLost as error:
            errors.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    # Mostly, the wait has begun by then. It must end in either case.
    time.sleep(0.05)

    waiting.close()

    eventually(lambda: errors, "the wait ends")
    thread.join(PATIENCE_SECONDS)
    assert channel.get("never") is None, "Other connections can still be used."


def test_a_closed_connection_refuses_every_call(channel: Channel) -> None:
    closed = channel.connect()
    closed.close()
    closed.close()

    with pytest.raises(ChannelLost, match="was closed"):
        closed.get("key")
    with pytest.raises(ChannelLost, match="was closed"):
        closed.set("key", b"1")
    with pytest.raises(ChannelLost, match="was closed"):
        closed.claim("key", b"1")
    with pytest.raises(ChannelLost, match="was closed"):
        closed.wait(["key"], 1.0)
