"""Which emulator of Pub/Sub is used: one on this machine, and no other."""

import pytest

pytest.importorskip("google.pubsub_v1")

from outlast.errors import SettingError
from outlast.queue.pubsub.client import _channel


@pytest.mark.parametrize("host", ["127.0.0.1:8085", "localhost:8085", "[::1]:8085"])
def test_an_emulator_on_this_machine_is_used(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", host)

    _channel().close()


@pytest.mark.parametrize(
    "host",
    [
        *("pubsub:8085", "10.0.0.7:8085", "0.0.0.0:8085", "localhost.example.com:8085"),
        *("dns:///evil.example:1", "unix:/tmp/x", "127.0.0.1@evil.example:1", "127.0.0.1,evil:1"),
    ],
)
def test_an_emulator_elsewhere_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", host)

    with pytest.raises(SettingError, match="is not on this machine") as caught:
        _channel()

    assert caught.value.source == "variable PUBSUB_EMULATOR_HOST"
