"""Results as objects: safe names that tell which result counts, and nothing else is needed."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.queue.key_names import encode_key
from outlast.results import Result, ResultDamaged, SinkUnavailable, SinkUrlError, open_sink
from outlast.results.object_names import name_of, parse_name
from outlast.results.objects import ObjectSink
from outlast.storage.memory import MemoryStore
from outlast.storage.protocol import check_name
from tests.servers.faults import answering

# Surrogates and NUL cannot be in a key.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
KEYS = st.text(CHARACTERS, min_size=1, max_size=512)


def files_in(folder: Path) -> list[Path]:
    """The results in a folder, without what is noted about runs."""
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.parent.name != "epochs"
    )


def results(*keys: str, text: str = "1") -> list[Result]:
    return [Result(key, text) for key in keys]


# Names


@given(
    key=KEYS,
    epoch=st.integers(0, 10**10 - 1),
    token=st.integers(0, 2**63 - 1),
    queue=st.text(CHARACTERS),
    version=st.text(CHARACTERS),
)
def test_any_key_has_a_name_that_every_store_takes(
    key: str, epoch: int, token: int, queue: str, version: str
) -> None:
    name = name_of(key, epoch=epoch, token=token, queue=queue, version=version)

    check_name(name.text)
    assert len(name.text) < 200
    assert name.text == name.text.lower()
    assert parse_name(name.text) == name
    assert name.key in (key, None)


@given(one=KEYS, other=KEYS)
def test_two_keys_never_share_a_name(one: str, other: str) -> None:
    assert (encode_key(one) == encode_key(other)) == (one == other)


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        ("image-001", "image-001"),
        ("Image_1.JPG", "_49mage_5f1_2e_4a_50_47"),
        ("../../etc/passwd", "_2e_2e_2f_2e_2e_2fetc_2fpasswd"),
        ("ä", "_c3_a4"),
    ],
)
def test_a_key_can_be_read_in_its_name(key: str, encoded: str) -> None:
    assert encode_key(key) == encoded
    assert name_of(key, epoch=1, token=1, queue="one", version="v1").key == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/3f/x",
        "a/3f/x.1.y.jsonl",
        "x.jsonl",
        "a/3f/" + "x" * 9,
        "g/3f/x",
        f"a/3f/x.{1:010}-{1:019}.{1:016x}.jsonl",
        f"a/3f/x.{1:019}-{1:012x}.{1:016x}.jsonl",
    ],
)
def test_what_is_not_ours_is_not_taken_for_a_result(text: str) -> None:
    assert parse_name(text) is None


# What stands in the folder


def test_a_file_says_whose_result_it_holds(tmp_path: Path) -> None:
    sink = ObjectSink(str(tmp_path))

    sink.store([Result("a b", '{"n":1}')], token=7, version="v1", queue="one")

    [path] = files_in(tmp_path)
    head, result, end = path.read_text().split("\n")
    assert head.startswith(
        '{"key": "a b", "version": "v1", "token": 7, "queue": "one", "epoch": 1, "stored_at": "'
    )
    assert (result, end) == ('{"n":1}', "")
    sink.close()


def test_results_of_older_versions_are_read_and_replaced(tmp_path: Path) -> None:
    for key, token in (("a", 1_760_000_000_000_000), ("a", 1_700_000_000_000_000), ("b", 5)):
        current = name_of(key, epoch=0, token=token, queue="", version="v1")
        folder, _, _ = current.text.rpartition("/")
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        old_name = f"{folder}/{current.encoded}.{token:019}.{current.version}.jsonl"
        (tmp_path / old_name).write_text(
            f'{{"key": "{key}", "version": "v1", "token": {token}, "stored_at": "x"}}\n{token}\n'
        )
    sink = ObjectSink(str(tmp_path))

    assert sink.done(["a", "b"], version="v1") == {"a", "b"}
    assert list(sink.results()) == [Result("a", "1760000000000000"), Result("b", "5")]
    assert sink.store(results("a"), token=1, version="v2", queue="one") == set()

    assert list(sink.results()) == [Result("a", "1"), Result("b", "5")]
    assert len(files_in(tmp_path)) == 2
    sink.close()


@pytest.mark.parametrize(
    "damage",
    ["torn", "[" * 50_000, '{"queue": "one", "version": "v1"}' + " " * 100_000],
    ids=["torn", "deep", "huge"],
)
def test_a_run_that_cannot_be_read_keeps_its_number(tmp_path: Path, damage: str) -> None:
    (tmp_path / "epochs").mkdir()
    (tmp_path / "epochs" / f"{7:010}.json").write_text(damage)
    (tmp_path / "epochs" / "notes.txt").write_text("mine")
    sink = ObjectSink(str(tmp_path))

    sink.store(results("a"), token=1, version="v1", queue="one")

    [path] = files_in(tmp_path)
    assert f".{8:010}-" in path.name
    sink.close()


def test_what_was_replaced_is_deleted(tmp_path: Path) -> None:
    sink = ObjectSink(str(tmp_path))
    for token in (1, 2, 3):
        sink.store(results("a", text=str(token)), token=token, version="v1")

    assert len(files_in(tmp_path)) == 1
    assert list(sink.results()) == results("a", text="3")
    sink.close()


def test_a_refused_result_leaves_nothing_behind(tmp_path: Path) -> None:
    sink = ObjectSink(str(tmp_path))
    sink.store(results("a", text="new"), token=2, version="v1")

    assert sink.store(results("a", text="old"), token=1, version="v2") == {"a"}

    assert len(files_in(tmp_path)) == 1
    sink.close()


def test_what_a_kill_left_beside_a_newer_result_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = ObjectSink(str(tmp_path))
    with monkeypatch.context() as killed:
        killed.setattr("outlast.storage.local.store.LocalStore.delete", lambda *_, **__: None)
        sink.store(results("a", text="old"), token=1, version="v1")
        sink.store(results("a", text="new"), token=2, version="v2")
    assert len(files_in(tmp_path)) == 2

    assert sink.done(["a"], version="v1") == set()
    assert sink.done(["a"], version="v2") == {"a"}
    assert (sink.count(), sink.count(version="v1")) == (1, 0)
    assert list(sink.results()) == results("a", text="new")

    sink.store(results("a", text="newest"), token=3, version="v2")
    assert len(files_in(tmp_path)) == 1
    sink.close()


def test_keys_too_long_for_a_name_come_in_their_place(tmp_path: Path) -> None:
    keys = ["a", "b" * 512, "c", "日" * 300]
    sink = ObjectSink(str(tmp_path))

    sink.store(results(*reversed(keys)), token=1, version="v1")

    assert [result.key for result in sink.results()] == keys
    assert sink.done(keys, version="v1") == set(keys)
    sink.close()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("mine")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.jsonl").write_text("mine")
    sink = ObjectSink(str(tmp_path))

    sink.store(results("x"), token=1, version="v1")

    assert sink.count() == 1
    assert list(sink.results()) == results("x")
    sink.close()


@pytest.mark.parametrize(
    "damage",
    [b"", b"garbage\n1\n", b'{"key": "other"}\n1\n', b'["key"]\n1\n', b'{"key": "a"}\n\xff\n'],
    ids=["empty", "garbage", "other-key", "list", "not-utf8"],
)
def test_a_damaged_result_is_reported_by_its_name(tmp_path: Path, damage: bytes) -> None:
    sink = ObjectSink(str(tmp_path))
    sink.store(results("a"), token=1, version="v1")
    [path] = files_in(tmp_path)
    path.write_bytes(damage)

    with pytest.raises(ResultDamaged, match=f"{path.name}' in .* is damaged"):
        list(sink.results())
    sink.close()


# Many at once


def test_of_many_who_store_at_once_the_newest_lease_wins(tmp_path: Path) -> None:
    start = threading.Barrier(8)
    refused: dict[int, bool] = {}

    def store(token: int) -> None:
        sink = ObjectSink(str(tmp_path))
        start.wait()
        refused[token] = bool(sink.store(results("a", text=str(token)), token=token, version="v1"))
        sink.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store, range(8)))

    sink = ObjectSink(str(tmp_path))
    assert not refused[7]
    assert list(sink.results()) == results("a", text="7")
    assert len(files_in(tmp_path)) == 1
    sink.close()


def test_results_that_are_replaced_while_they_are_read_come_in_their_new_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = ObjectSink("memory://replaced-while-read")
    long_key = "k" * 500
    sink.store(results("a", long_key, text="old"), token=1, version="v1")
    real = MemoryStore.read
    replaced = threading.Event()

    def read(store: MemoryStore, name: str, **options: object) -> bytes:
        if not replaced.is_set():
            replaced.set()
            other = ObjectSink("memory://replaced-while-read")
            other.store(results("a", long_key, text="new"), token=2, version="v1")
            other.close()
        return real(store, name, **options)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(MemoryStore, "read", read)

    assert list(sink.results()) == results("a", long_key, text="new")
    sink.close()


def test_a_forked_child_can_use_the_sink(tmp_path: Path) -> None:
    sink = ObjectSink(str(tmp_path))
    sink.store(results("a"), token=1, version="v1")

    child = multiprocessing.get_context("fork").Process(
        target=sink.store, args=(results("b"),), kwargs={"token": 2, "version": "v1"}
    )
    child.start()
    child.join(10)

    assert child.exitcode == 0
    assert sink.count() == 2
    sink.close()


# When it cannot be


@pytest.mark.parametrize("url", ["mysql://host/x", "", "file://host/x"])
def test_a_url_that_is_no_sink_is_refused(url: str) -> None:
    with pytest.raises(SinkUrlError, match="Invalid sink URL") as caught:
        open_sink(url)

    assert caught.value.hint is not None
    assert "gs://bucket/prefix or a folder" in caught.value.hint


def test_a_topic_is_no_sink() -> None:
    with pytest.raises(SinkUrlError, match="cannot tell which keys are done"):
        open_sink("pubsub://project/topic")


def test_a_folder_that_is_a_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    sink = ObjectSink(str(path))

    with pytest.raises(SinkUnavailable, match="Could not list"):
        sink.store(results("a"), token=1, version="v1")
    sink.close()


def test_a_store_that_fails_is_reported_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(403) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test-key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        sink = ObjectSink("s3://bucket/results")

        with pytest.raises(SinkUnavailable, match="the server answered 403") as caught:
            sink.done(["a"], version="v1")

    assert caught.value.hint is not None
    assert "Check the network" in caught.value.hint
    sink.close()
