"""With a key, nobody without it can make a checkpoint that is resumed from."""

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError, NothingVerifies
from outlast.checkpoint.format.encoding import decode, encode
from outlast.checkpoint.format.envelope import digest_of
from outlast.checkpoint.format.keys import Hashing, load_hashings
from outlast.checkpoint.restoring import inspection
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import SIGNED, manifest_names, read_manifest
from outlast.errors import SettingError
from outlast.storage import AlreadyExists, NotFound, Store, open_store
from tests.unit.checkpoint.stores import NEVER, manifest_of, memory_url

OLD = "old-key-" + "0123456789abcdef" * 2
NEW = "new-key-" + "fedcba9876543210" * 2

KeyFile = Callable[..., Path]


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyFile:
    """Sets the key file to one with these keys; without any, unsets it."""

    def use(*keys: str) -> Path:
        path = tmp_path / "outlast.key"
        path.write_text("\n".join(keys) + "\n")
        path.chmod(0o600)
        monkeypatch.setenv("OUTLAST_KEY_FILE", str(path) if keys else "")
        return path

    return use


def saved(url: str, *steps: int) -> Store:
    """A run that has saved these steps in one attempt, after what was there."""
    state = state_at(0)
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        for step in steps:
            state.update(state_at(step))
            checkpointer.save(step)
            checkpointer.wait()
    return open_store(url)


def state_at(step: int) -> dict[str, Any]:
    return {"large": np.full(3 * 2**20, step, np.uint8), "small": np.full(9, step)}


def resumed(url: str) -> tuple[int, dict[str, Any]]:
    state = state_at(0)
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        return checkpointer.resume(), state


def resigned(data: bytes, mac: object) -> bytes:
    """The same manifest with another MAC, or with none."""
    first, _, body = data.partition(b"\n")
    head = json.loads(first)
    head.pop("mac", None)
    if mac is not None:
        head["mac"] = mac
    return json.dumps(head).encode() + b"\n" + body


def forged(store: Store, *, mac: object = None) -> str:
    """Add a checkpoint of a later attempt, with a right hash, as whoever may create objects can."""
    name = manifest_names(store)[0]
    body = json.loads(store.read(name).partition(b"\n")[2])
    body |= {"attempt": 9, "step": 999, "hash": "xxh3_128"}
    data = json.dumps(body).encode()
    head = {"outlast": 1, "length": len(data), "xxh3_128": digest_of(data), "mac": mac}
    name = "manifests/000000000999-000009.json"
    store.create(name, [json.dumps({k: v for k, v in head.items() if v}).encode(), b"\n", data])
    return name


def test_a_signed_run_resumes_and_verifies(key_file: KeyFile) -> None:
    key_file(NEW)
    url = memory_url()

    store = saved(url, 1, 2)

    step, state = resumed(url)
    assert step == 2
    assert np.array_equal(state["large"], state_at(2)["large"])
    for name in manifest_names(store):
        assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []
    difference = inspection.compare(store, *(inspection.find(store, step) for step in (1, 2)))
    assert difference.changed == ("large", "small")


@pytest.mark.parametrize("mac", [None, "0" * 64, 5, "\udcff", ["x"]])
def test_a_forged_checkpoint_of_a_later_attempt_is_not_resumed_from(
    key_file: KeyFile, mac: object, caplog: pytest.LogCaptureFixture
) -> None:
    key_file(NEW)
    url = memory_url()
    store = saved(url, 1, 2)
    name = forged(store, mac=mac)

    step, _ = resumed(url)

    assert step == 2
    assert f"Skipped the checkpoint {name}:" in caplog.text
    assert "signed" in caplog.text


def test_bytes_put_in_the_place_of_a_chunk_are_noticed(key_file: KeyFile) -> None:
    """The hash of a chunk is keyed, so nobody else can find bytes that have it, or compute one."""
    key_file(NEW)
    store = saved(memory_url(), 1)
    manifest = manifest_of(store, manifest_names(store)[0])

    for chunk in manifest.chunks:
        [copy] = chunk.copies[:1]
        data = store.read(copy.pack, start=copy.offset, length=chunk.span.length)
        assert chunk.digest == Hashing(NEW.encode()).digest(data) != digest_of(data)
        assert chunk.digest != Hashing(OLD.encode()).digest(data)


def test_a_flipped_mac_and_a_missing_one_are_refused(key_file: KeyFile) -> None:
    key_file(NEW)
    store = saved(memory_url(), 1)
    [name] = manifest_names(store)
    data = store.read(name)
    mac = json.loads(data.partition(b"\n")[0])["mac"]
    flipped = ("1" if mac[0] == "0" else "0") + mac[1:]

    assert decode(name, resigned(data, mac)).step == 1
    with pytest.raises(CheckpointCorrupt, match="not signed with any of the keys"):
        decode(name, resigned(data, flipped))
    with pytest.raises(CheckpointCorrupt, match="is not signed, but OUTLAST_KEY_FILE requires"):
        decode(name, resigned(data, None))


def test_a_signed_manifest_is_valid_under_its_own_name_only(key_file: KeyFile) -> None:
    key_file(NEW)
    store = saved(memory_url(), 1)
    [name] = manifest_names(store)

    with pytest.raises(CheckpointCorrupt, match="not signed"):
        decode("manifests/000000000001-000009.json", store.read(name))


def test_nothing_that_is_not_signed_is_parsed(
    key_file: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file(NEW)
    store = saved(memory_url(), 1)
    name = forged(store, mac="0" * 64)
    monkeypatch.setattr("outlast.checkpoint.format.encoding._manifest", pytest.fail)

    with pytest.raises(CheckpointCorrupt, match="not signed"):
        read_manifest(store, name)


def test_a_key_is_replaced_by_putting_the_new_one_first(key_file: KeyFile) -> None:
    url = memory_url()
    key_file(OLD)
    saved(url, 1)

    key_file(NEW, OLD)
    store = saved(url, 2)

    # The old key is no longer needed for what was saved since.
    key_file(NEW)
    step, state = resumed(url)
    assert step == 2
    assert np.array_equal(state["large"], state_at(2)["large"])
    assert (
        verify_checkpoint(store, read_manifest(store, manifest_names(store)[0]), lambda _: None)
        == []
    )
    # Nor does the old one alone read the new checkpoints.
    key_file(OLD)
    assert resumed(url)[0] == 1


def test_checkpoints_of_different_keys_are_not_compared(key_file: KeyFile) -> None:
    url = memory_url()
    key_file(OLD)
    saved(url, 1)
    key_file(NEW, OLD)
    store = saved(url, 2)

    before, after = (inspection.find(store, step) for step in (1, 2))
    with pytest.raises(CheckpointError, match="different keys"):
        inspection.compare(store, before, after)


def test_a_wrong_key_is_refused_with_what_to_do(key_file: KeyFile) -> None:
    url = memory_url()
    key_file(OLD)
    saved(url, 1)
    key_file(NEW)

    with pytest.raises(NothingVerifies, match="not signed with any of the keys") as caught:
        resumed(url)

    assert "add the old one to the key file" in str(caught.value.hint)


def test_an_unsigned_run_is_refused_with_a_key_and_unchanged_without(key_file: KeyFile) -> None:
    url = memory_url()
    key_file()
    store = saved(url, 1)
    key_file(NEW)

    with pytest.raises(NothingVerifies, match="is not signed") as caught:
        resumed(url)

    assert "unset OUTLAST_KEY_FILE" in str(caught.value.hint)
    with pytest.raises(NotFound):
        store.read(SIGNED)
    key_file()
    assert resumed(url)[0] == 1


def test_a_signed_run_is_never_read_without_its_key(key_file: KeyFile) -> None:
    """Otherwise a forged checkpoint without a signature would be resumed from."""
    url = memory_url()
    key_file(NEW)
    store = saved(url, 1)
    forged(store)
    key_file()

    with pytest.raises(CheckpointCorrupt, match="no key is set") as caught:
        resumed(url)

    assert "Set OUTLAST_KEY_FILE" in str(caught.value.hint)
    with pytest.raises(CheckpointCorrupt, match="no key is set"):
        read_manifest(store, manifest_names(store)[-1])


def test_a_manifest_from_before_keys_is_read(key_file: KeyFile) -> None:
    key_file()
    store = saved(memory_url(), 1)
    [name] = manifest_names(store)
    body = json.loads(store.read(name).partition(b"\n")[2])
    del body["hash"]
    data = json.dumps(body).encode()
    head = json.dumps({"outlast": 1, "length": len(data), "xxh3_128": digest_of(data)})

    assert encode(decode(name, head.encode() + b"\n" + data)) == store.read(name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"secret-secret-secret", "key 1 has 20 bytes"),
        (b"x" * 40 + b"\nsecret", "key 2 has 6 bytes"),
        (b"\xff\x00" * 40, "key 1 is not printable"),
        (b"x" * 70_000, "more than 65,536 bytes"),
        ((b"x" * 32 + b"\n") * 17, "17 keys, more than 16"),
    ],
)
def test_a_key_file_that_cannot_be_right_is_refused_and_not_quoted(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "outlast.key"
    path.write_bytes(content)

    with pytest.raises(SettingError, match=reason) as caught:
        load_hashings({"OUTLAST_KEY_FILE": str(path)})

    assert "openssl rand -hex 32" in str(caught.value.hint)
    assert "secret" not in str(caught.value)


def test_a_key_file_that_is_missing_or_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("none", "No such file"), ("pipe", "not a regular")):
        with pytest.raises(SettingError, match=reason):
            load_hashings({"OUTLAST_KEY_FILE": str(tmp_path / name)})


def test_a_key_file_that_all_can_read_is_warned_about(
    key_file: KeyFile, caplog: pytest.LogCaptureFixture
) -> None:
    path = key_file(NEW)
    Checkpointer(memory_url(), state_at(0))
    assert not caplog.records

    path.chmod(0o644)
    Checkpointer(memory_url(), state_at(0))

    assert "Every user of this machine can read the key file" in caplog.text


def test_no_key_is_shown_or_stored_anywhere(
    key_file: KeyFile, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    from outlast.cli.app import run

    caplog.set_level(logging.DEBUG)
    path = key_file(NEW)
    path.chmod(0o644)
    url = str(path.parent / "run")
    store = saved(url, 1)
    forged(store)
    resumed(url)
    manifest = read_manifest(store, manifest_names(store)[-1])
    for arguments in (["settings"], ["checkpoints", url], ["checkpoints", url, "--verify"]):
        run(arguments)

    printed = capsys.readouterr()
    shown = [caplog.text, printed.out, printed.err, repr(manifest), repr(load_hashings())]
    assert NEW[:16] not in "".join(shown)
    assert "OUTLAST_KEY_FILE" in printed.out
    for file in Path(url).rglob("*"):
        if file.is_file():
            assert NEW.encode()[:16] not in file.read_bytes()


def copied(source: str, target: str, *prefixes: str) -> None:
    """Copy what is not there yet, as whoever may create objects can."""
    store, other = open_store(source), open_store(target)
    for prefix in prefixes:
        for entry in store.list(prefix):
            with contextlib.suppress(AlreadyExists):
                other.create(entry.name, [store.read(entry.name)])


def test_checkpoints_of_another_run_with_the_same_key_are_not_resumed_from(
    key_file: KeyFile, caplog: pytest.LogCaptureFixture
) -> None:
    key_file(NEW)
    ours, theirs = memory_url(), memory_url()
    saved(ours, 1, 2)
    for step in (10, 20, 30):
        saved(theirs, step)
    copied(theirs, ours, "manifests/", "packs/", "signed.json")

    step, state = resumed(ours)

    assert step == 2
    assert np.array_equal(state["large"], state_at(2)["large"])
    assert "manifests/000000000030-000003.json' is signed, but belongs to another run" in (
        caplog.text
    )
    problems = [one.problems for one in inspection.summaries(open_store(ours), reads_all=True)]
    assert sum(bool(found) for found in problems) == 3


def test_a_signed_run_keeps_its_id_and_can_be_copied_completely(key_file: KeyFile) -> None:
    key_file(NEW)
    url, copy = memory_url(), memory_url()
    for step in (1, 2):
        store = saved(url, step)

    ids = {read_manifest(store, name).run_id for name in manifest_names(store)}
    [run_id] = ids
    assert json.loads(store.read(SIGNED)) == {"run_id": run_id}
    copied(url, copy, "")
    assert resumed(copy)[0] == 2


@pytest.mark.parametrize("content", [None, b"{}", b"[" * 200_000, b'{"run_id": 5}'])
def test_a_signed_run_whose_id_is_lost_is_refused(key_file: KeyFile, content: bytes | None) -> None:
    key_file(NEW)
    url = memory_url()
    store = saved(url, 1)
    store.delete([SIGNED])
    if content is not None:
        store.create(SIGNED, [content])

    with pytest.raises(NothingVerifies, match=r"signed\.json there is missing") as caught:
        resumed(url)

    assert "Restore signed.json" in str(caught.value.hint)


def test_a_signed_manifest_without_an_id_is_refused(key_file: KeyFile) -> None:
    key_file(NEW)
    store = saved(memory_url(), 1)
    [name] = manifest_names(store)
    manifest = replace(manifest_of(store, name), run_id=None)

    with pytest.raises(CheckpointCorrupt, match="the id of the run is None"):
        decode(name, encode(manifest))


def test_an_unsigned_manifest_has_no_id(key_file: KeyFile) -> None:
    key_file()
    store = saved(memory_url(), 1)
    [name] = manifest_names(store)

    assert b"run_id" not in store.read(name)
    assert not store.list(SIGNED)


@pytest.mark.parametrize("key", ["s3cret" * 8, "0123456789abcdef" * 4, "long-key" * 999])
def test_a_key_given_in_the_place_of_its_path_is_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from outlast.cli.app import run

    monkeypatch.setenv("OUTLAST_KEY_FILE", key)

    with pytest.raises(SettingError, match="looks like a key rather than the path") as caught:
        Checkpointer(memory_url(), state_at(0))

    assert "the path of a file that contains the key" in str(caught.value.hint)
    assert run(["settings"]) == 2
    printed = capsys.readouterr()
    assert "looks like a key" in printed.err
    for text in (str(caught.value), str(caught.value.hint), printed.out, printed.err):
        assert key[:8] not in text


def test_a_long_path_that_does_not_exist_is_shown(tmp_path: Path) -> None:
    path = tmp_path / ("outlast" * 6)

    with pytest.raises(SettingError, match=re.escape(str(path))):
        load_hashings({"OUTLAST_KEY_FILE": str(path)})
