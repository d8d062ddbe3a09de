"""The workload file: what it takes, what follows from it, and how it says no."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.capacity import Tier, Workload, WorkloadError, WorkloadKind
from outlast.capacity.workload.file import workload_schema
from tests.workload_keys import workload_keys

ROOT = Path(__file__).parents[3]
MINIMAL = """\
name: tiny-gpt
kind: training
image: registry.example/trainer@sha256:…
command: [python, train.py]
accelerator: {type: nvidia-l4, count: 2}
work: {hours: 38}
checkpoint: {url: "gs://lab-runs/tiny-gpt", size: 12GiB}
"""
HEAD = "name: tiny\nkind: training\nimage: trainer:1\n"


def parse(text: str, **overrides: str) -> Workload:
    pairs = {key.replace("__", "."): value for key, value in overrides.items()}
    return Workload.parse(text, name="workload.yaml", overrides=pairs)


def refusal(text: str, **overrides: str) -> WorkloadError:
    with pytest.raises(WorkloadError) as caught:
        parse(text, **overrides)
    return caught.value


def test_seven_lines_suffice(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(MINIMAL)

    workload = Workload.read(path)

    assert (workload.name, workload.namespace) == ("tiny-gpt", "tiny-gpt")
    assert (workload.kind, workload.tier) == (WorkloadKind.TRAINING, Tier.AUTO)
    assert workload.image == "registry.example/trainer@sha256:…"
    assert workload.checkpoint is not None and workload.checkpoint.size == 12 * 1024**3
    assert workload.work is not None and workload.work.compute_hours == 38
    assert workload.machine_type == "g2-standard-24"
    assert (workload.interruptible, workload.resumable) == (True, True)
    assert (workload.pods, workload.accelerators_total) == (1, 2)


def test_a_workload_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse(MINIMAL).name = "other"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12GiB", 12 * 1024**3),
        ("1.5 TiB", 3 * 2**39),
        ("500MB", 500_000_000),
        ("500Mi", 500 * 1024**2),
        ("1kB", 1000),
        ("7B", 7),
    ],
)
def test_sizes_are_whole_bytes(text: str, expected: int) -> None:
    checkpoint = parse(MINIMAL, checkpoint__size=text).checkpoint

    assert checkpoint is not None and checkpoint.size == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("1w", timedelta(days=7)),
        ("0.1s", timedelta(milliseconds=100)),
        ("72h", timedelta(hours=72)),
    ],
)
def test_durations_are_exact(text: str, expected: timedelta) -> None:
    assert parse(MINIMAL, deadline=text).deadline == expected


def test_a_deadline_can_be_a_moment() -> None:
    deadline = parse(MINIMAL + "deadline: 2026-11-20T18:00:00+01:00\n").deadline

    assert deadline == datetime(2026, 11, 20, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("auto", None), ("500", 500), ("10m", timedelta(minutes=10))],
)
def test_an_interval_is_automatic_or_steps_or_time(text: str, expected: object) -> None:
    checkpoint = parse(MINIMAL, checkpoint__interval=text).checkpoint

    assert checkpoint is not None and checkpoint.interval == expected


def test_text_stays_as_it_is_written() -> None:
    workload = parse(
        HEAD + "cluster: {version: 1.30}\ncommand: [run, 1e3, no, 0400]\nenv: {A: yes, B: 1.0}\n"
    )

    assert workload.cluster.version == "1.30"
    assert workload.cluster.minor == 30
    assert workload.command == ("run", "1e3", "no", "0400")
    assert workload.env == {"A": "yes", "B": "1.0"}


@pytest.mark.parametrize(
    ("text", "resumable"),
    [
        (MINIMAL, True),
        (MINIMAL.replace("checkpoint", "# checkpoint"), False),
        ("name: a\nkind: sweep\nimage: i", True),
        ("name: a\nkind: ci\nimage: i", True),
        ("name: a\nkind: batch-inference\nimage: i", False),
        ("name: a\nkind: batch-inference\nimage: i\nqueue: postgresql://h/d\nsink: gs://aaa", True),
        (MINIMAL + "resumable: false", False),
    ],
)
def test_what_can_resume_follows_from_the_kind_and_its_parts(text: str, resumable: bool) -> None:
    assert parse(text).resumable is resumable


def test_aliases_are_read_and_stay_apart() -> None:
    text = HEAD + "env: &shared {A: b}\n" + "secrets: {}\n"
    workload = parse(text.replace("secrets: {}", "cluster: {pools: [{name: a, labels: *shared}]}"))

    assert workload.cluster.pools[0].labels == {"A": "b"}
    changed = parse(
        HEAD + "env: &shared {A: b}\ncluster: {pools: [{name: a, labels: *shared}]}\n",
        env__A="c",
    )
    assert (changed.env, changed.cluster.pools[0].labels) == ({"A": "c"}, {"A": "b"})


def test_json_made_from_a_workload_is_the_same_workload() -> None:
    workload = parse(MINIMAL, deadline="72h", checkpoint__interval="10m", max_run="2d")

    assert Workload.model_validate_json(workload.model_dump_json()) == workload
    assert parse(workload.model_dump_json(exclude_defaults=True)) == workload


def test_overrides_are_typed_by_the_file_they_change() -> None:
    workload = parse(
        MINIMAL + "cluster: {pools: [{name: a}]}\n",
        accelerator__count="4",
        command="[python, other.py]",
        cluster__pools__0__max_nodes="9",
        measured__save="12s",
        work__hours="40.5",
    )

    assert workload.accelerator is not None and workload.accelerator.count == 4
    assert workload.command == ("python", "other.py")
    assert workload.cluster.pools[0].max_nodes == 9
    assert workload.measured.save == timedelta(seconds=12)
    assert workload.work is not None and workload.work.hours == 40.5


def test_an_override_can_take_a_key_away() -> None:
    assert parse(MINIMAL, checkpoint="").checkpoint is None
    assert parse(MINIMAL, accelerator="null").accelerator is None


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            {"acelerator__count": "4"},
            "--set acelerator.count: Unknown key 'acelerator'. Did you",
        ),
        (
            {"accelerator__counts": "4"},
            "Unknown key 'accelerator.counts'. Did you mean 'acceler",
        ),
        ({"work__hours": "many"}, "--set work.hours: expected a number, got 'many'"),
        (
            {"name__x": "1"},
            "--set name.x: Cannot set 'name.x': the key above it is 'tiny-gpt', a single value",
        ),
        ({"name__x__y": "1"}, "Cannot set 'x': the key above it has a single value"),
        ({"command__7": "x"}, "'7' is not an index of a list with 2 items"),
        ({"": "x"}, "Invalid key ''."),
        ({"work__": "x"}, "Invalid key 'work.'."),
        ({"command": "[a"}, "This YAML cannot be read"),
    ],
)
def test_a_wrong_override_is_told_by_its_key(overrides: dict[str, str], words: str) -> None:
    assert words in str(refusal(MINIMAL, **overrides))


@pytest.mark.parametrize(
    ("lines", "where", "words"),
    [
        (
            "chekpoint: {url: gs://aaa/b}",
            "4:1",
            "Unknown key 'chekpoint'. Did you mean 'checkpoint'?",
        ),
        ("hours: 38", "4:1", "Unknown key 'hours'. Did you mean 'work.hours'?"),
        ("zzz: 1", "4:1", "Unknown key 'zzz'."),
        ("cluster:\n  pools:\n  - name: a\n    taint: x", "7:5", "mean 'cluster.pools.0.taints'?"),
        ("work: {hours: 38, items: 4}", "4:19", "either hours or items, not both"),
        ("work: {}", "4:1", "Specify either hours or items."),
        ("work: {seconds_per_item: 3}", "4:1", "Specify either hours or items."),
        ("work: {hours: 1, seconds_per_item: 3}", "4:18", "seconds_per_item requires items."),
        ("work: {hours: -38}", "4:8", "work.hours: expected a number above 0, got '-38'."),
        ("work: {hours: many}", "4:8", "work.hours: expected a number, got 'many'."),
        ("work: {hours: 1e999}", "4:8", "expected a finite number"),
        ("work: 38", "4:1", "work: expected a mapping, got '38'."),
        ("nodes: 1.5", "4:1", "nodes: expected a whole number, got '1.5'."),
        ("nodes: 0", "4:1", "nodes: expected a number of at least 1, got '0'."),
        ("nodes: 99999999999999999999", "4:1", "expected a number of at most 1,000, got "),
        ("interruptible: maybe", "4:1", "expected true or false, got 'maybe'."),
        ("resources: {cpu: []}", "4:13", "expected a number."),
        ("tier: spott", "4:1", "on-demand, hybrid, got 'spott'. Did you mean 'spot'?"),
        (
            "tier: zzz",
            "4:1",
            "expected one of auto, spot, flex-start, on-demand, hybrid, got 'zzz'.",
        ),
        (
            "command: python train.py",
            "4:1",
            "command: expected a list of words, such as [python, trai",
        ),
        ("command: [a, {b: c}]", "4:14", "command.1: expected text."),
        ('command: ["a\\u0007"]', "4:11", "Control characters are not allowed."),
        ("env: []", "4:1", "env: expected a mapping."),
        ("env: {OUTLAST_GRACE_SECONDS: 9}", "4:7", "This variable name is reserved"),
        ("env: {A: 1}\nsecrets: {A: b/c}", "5:11", "This variable is also set in `env`."),
        ("env: {A-B: 1}", "4:7", "expected a variable name of letters, digits and '_'."),
        ("secrets: {A: b}", "4:11", "expected NAME/KEY of a Secret"),
        ("namespace: Research", "4:1", "starting with a letter, got 'Research'. Try 'research'."),
        ("accelerator: {count: 2}", "4:1", "The key 'accelerator.type' is missing."),
        (
            "accelerator: {type: nvidia-l4, count: 3}",
            "4:32",
            "Machine types with nvidia-l4 have 1, 2, 4, 8 of them.",
        ),
        ("accelerator: {type: nvidia-l5}", "4:15", "Did you mean 'nvidia-l4'?"),
        ("accelerator: {type: nvidia-zz9-plural}", "4:15", "Set the machine type with `machine`."),
        ("accelerator: {type: tpu-v5p-slice}", "4:15", "TPUs are not supported in workload files"),
        ("accelerator: {type: amd-mi300}", "4:15", "Only nvidia-... accelerators are supported."),
        ("machine: ct6e-standard-4t", "4:1", "TPUs are not supported in workload files"),
        ("machine: tpu7x-standard-4t", "4:1", "`outlast prices` shows what TPUs cost."),
        (
            "accelerator: {type: nvidia-l4}\nmachine: g2-standard-24",
            "5:1",
            "A g2-standard-24 has 2 nvidia-l4, but the workload asks for 1 nvidia-l4.",
        ),
        (
            "accelerator: {type: nvidia-l4}\nmachine: e2-standard-4",
            "5:1",
            "This machine type has no nvidia-l4",
        ),
        ("checkpoint: {}", "4:1", "The key 'checkpoint.url' is missing."),
        ("checkpoint: {url: lab/run}", "4:14", "The URL has no scheme"),
        (
            "checkpoint: {url: 'http://lab/run'}",
            "4:14",
            "expected a URL that starts with one of gs://",
        ),
        ("checkpoint: {url: 'gs:///run'}", "4:14", "The URL has nothing after gs://"),
        ("checkpoint: {url: 'gs://LAB/run'}", "4:14", "'LAB' is not a valid bucket name"),
        ("checkpoint: {url: 'gs://lab:p@x/run'}", "4:14", "contains a secret"),
        ("checkpoint: {url: 'gs://lab:port/x'}", "4:14", "Invalid URL."),
        ("checkpoint: {url: 'file://host/x'}", "4:14", "such as file:///mnt/checkpoints/run"),
        ("checkpoint: {url: gs://lab/run, size: 12}", "4:33", "expected a size with a unit"),
        ("checkpoint: {url: gs://lab/run, size: 0GiB}", "4:33", "expected a size above 0"),
        ("checkpoint: {url: gs://lab/run, size: 1.0001KiB}", "4:33", "whole number of bytes"),
        (
            "checkpoint: {url: gs://lab/run, interval: soon}",
            "4:33",
            "expected auto, a number",
        ),
        (
            "checkpoint: {url: gs://lab/run, interval: 0}",
            "4:33",
            "expected a number of steps of at least 1, got '0'",
        ),
        ("storage: {kind: fuse}", "4:1", "Storage requires the section `checkpoint`."),
        (
            "checkpoint: {url: gs://lab/x}\nstorage: {kind: claim}",
            "4:14",
            "A claim requires a file URL",
        ),
        (
            "checkpoint: {url: s3://lab/x}\nstorage: {kind: fuse}",
            "4:14",
            "supports only gs:// URLs",
        ),
        ("checkpoint: {url: file:///x}\nstorage: {kind: object}", "4:14", "requires a bucket URL"),
        (
            "checkpoint: {url: file:///x}\nstorage: {mount: /y}",
            "5:11",
            "'/x' is outside this mount",
        ),
        (
            "checkpoint: {url: file:///x}\nnodes: 2",
            "4:14",
            "need storage.access: ReadWriteMany or a bucket",
        ),
        ("deadline: soon", "4:1", "expected a duration such as 72h, or a time such as"),
        ("deadline: 2026-11-20T18:00:00", "4:1", "expected a time with a time zone"),
        ("deadline: 2026-99-20T18:00:00Z", "4:1", "expected a time such as"),
        ("deadline: 0s", "4:1", "expected a duration above 0, got '0s'."),
        ("deadline: 3h3h", "4:1", "expected each unit at most once"),
        ("deadline: 0.0001ms", "4:1", "whole number of milliseconds"),
        ("deadline: 99999d", "4:1", "at most ten years"),
        ("max_run: 8d", "4:1", "max_run: expected 10m to 7d, got '8d'."),
        (
            "max_run: 601.5s\nhybrid: {recycle_lead: 1m}",
            "4:1",
            "expected whole seconds, got '601.5s'",
        ),
        ("hybrid: {recycle_lead: 8d}", "4:10", "expected a duration shorter than `max_run`"),
        (
            "hybrid: {order: [spot, spot]}",
            "4:24",
            "expected spot, flex-start and on-demand, each at most once",
        ),
        ("hybrid: {order: []}", "4:10", "expected at least one tier"),
        ("grace: 3s", "4:1", "grace: expected whole seconds, at least 5s, got "),
        ("grace: 7.5s", "4:1", "grace: expected whole seconds, at least 5s, got "),
        ("priority: -11", "4:1", "expected a number of at least -10, got '-11'."),
        ("parallelism: 4", "4:1", "A training workload scales with `nodes`."),
        (
            "serving: {port: 9}",
            "4:1",
            "Only serving workloads use this section; the kind is 'training'.",
        ),
        ("endless: true", "4:1", "Only a batch-inference workload without `work`"),
        ("queue: postgresql://h/d", "4:1", "Only batch-inference workloads have a queue"),
        (
            "tier: flex-start",
            "4:1",
            "Flex-start offers only machines with accelerators and h4d machines.",
        ),
        ("service_account: {google: me}", "4:19", "expected a Google service account such as"),
        ("cluster: {version: 1.20}", "4:11", "Kubernetes 1.30 or newer is required."),
        ("cluster: {version: latest}", "4:11", "expected a Kubernetes version such as 1.35 or"),
        ("cluster: {shutdown_window: 60s}", "4:11", "expected 30s or 120s, got '60s'."),
        (
            "cluster: {shutdown_window: 120s, version: 1.34}",
            "4:11",
            "120s requires Kubernetes 1.35 or newer, but cluster.version is '1.34'",
        ),
        (
            "cluster: {shutdown_window: 120s, mode: autopilot}",
            "4:11",
            "Autopilot does not support changing this",
        ),
        (
            "cluster: {mode: autopilot, pools: [{name: a}]}",
            "4:28",
            "Autopilot clusters have no user-managed node pools",
        ),
        ("cluster: {pools: [{name: a}, {name: a}]}", "4:31", "Two pools have the name 'a'."),
        (
            "cluster: {pools: [{name: a, tier: hybrid}]}",
            "4:29",
            "expected spot, flex-start or on-demand",
        ),
        (
            "cluster: {pools: [{name: a, taints: [{key: b}, {key: b}]}]}",
            "4:49",
            "Two taints have the key 'b'.",
        ),
        ("cluster: {kueue: {queue: q}}", "4:11", "requires `tier: flex-start`"),
        ("cluster: {kueue: {}}", "4:11", "The key 'cluster.kueue.queue' is missing."),
        ("storage: {mount: relative}", "4:11", "expected an absolute path"),
        ("image: b", "4:1", "The key 'image' appears twice."),
        ("a: [1", "", "This YAML cannot be read"),
        ("\ta: 1", "", "This YAML cannot be read"),
        ("---\nname: b", "4:1", "a second document starts here."),
        ("a: !!python/object/apply:os.system [id]", "4:4", "is not supported"),
        ("? [a]\n: b", "4:3", "a key must be text, a number or a boolean."),
        ("a: *b", "4:4", "the alias *b has no anchor before it."),
        ("a: &a [*a]", "4:8", "the alias *a is part of what it refers to."),
    ],
)
def test_a_mistake_is_told_with_its_place(lines: str, where: str, words: str) -> None:
    error = refusal(HEAD + lines)

    assert words in str(error)
    if where:
        assert f"workload.yaml:{where}: " in str(error)
        line, column = map(int, where.split(":"))
        assert (error.file, error.line, error.column) == ("workload.yaml", line, column)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "workload.yaml:1:1: The file is empty."),
        ("# only a comment\n", "The file is empty."),
        ("- a\n", "Expected a mapping of keys at the top level, got a list."),
        ("word", "Expected a mapping of keys at the top level, got a single value."),
        ("name: a\nkind: trainin\n", "got 'trainin'. Did you mean 'training'?"),
        ("name: a\n", "The key 'kind' is missing."),
        ("name: Tiny_GPT 2\nkind: ci\nimage: i", "Try 'tiny-gpt-2'."),
        (f"name: {'a' * 41}\nkind: ci\nimage: i", f"Try {'a' * 40!r}."),
        ("name: 9\nkind: ci\nimage: i", "starting with a letter, got '9'."),
        ("name: a\nkind: ci\nimage:", "image is empty. Expected text."),
        ("name: a\nkind: ci\nimage: i\nnodes: 2", "A ci workload scales with `parallelism`"),
        ("name: a\nkind: serving\nimage: i\nparallelism: 2", "scales with `serving.replicas`"),
        ("name: a\nkind: ci\nimage: i\nlauncher: none", "A ci workload has no ranks to launch."),
        (
            "name: a\nkind: training\nimage: i\nlauncher: torchrun",
            "torchrun needs a `command` to run, such as [python, train.py].",
        ),
        (
            "name: a\nkind: training\nimage: i\nlauncher: torchun",
            "got 'torchun'. Did you mean 'torchrun'?",
        ),
        (
            "name: a\nkind: ci\nimage: i\nenv: {TORCH_ELASTIC_SHUTDOWN_TIMEOUT: '60'}",
            "This variable name is reserved",
        ),
        (
            "name: a\nkind: serving\nimage: i\ncheckpoint: {url: gs://lab/x}",
            "do not save checkpoints",
        ),
        (
            "name: a\nkind: serving\nimage: i\nserving: {health: x}",
            "expected a URL path such as /healthz",
        ),
        (
            "name: a\nkind: serving\nimage: i\ntier: flex-start\naccelerator: {type: nvidia-l4}",
            "would go down after at most 7 days",
        ),
        (
            "name: a\nkind: sweep\nimage: i\nwork: {items: 100001}",
            "can have at most 100,000 trials",
        ),
        ("name: a\nkind: batch-inference\nimage: i\nqueue: postgresql://h/d", "requires a `sink`"),
        (
            "name: a\nkind: batch-inference\nimage: i\nqueue: {}\nsink: gs://aaa",
            "Specify either url or secret.",
        ),
        (
            "name: a\nkind: batch-inference\nimage: i\nqueue: sqlite:///jobs.db\nsink: gs://aaa",
            "A SQLite file is lost with its node",
        ),
        (
            "name: a\x00",
            "workload.yaml:1:8: This YAML cannot be read: the character U+0000 is not allowed.",
        ),
        ("name: \ud800", "The text contains half of a surrogate pair."),
        ("name: " + "a" * 2**20, "the limit is 1,048,576"),
        ("[" * 10_000, "nested more than 40 levels deep"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_a_file_that_is_no_workload_is_told_so(text: str, words: str) -> None:
    assert words in str(refusal(text))


def test_all_problems_are_told_at_once_in_the_order_of_their_lines() -> None:
    error = refusal("kind: trainin\nimage: a b\nnodes: x\nname: A\nzzz: 1\n")

    lines = str(error).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "2", "3", "4", "5"]
    assert error.line == 1


def test_many_problems_are_counted() -> None:
    error = refusal(HEAD + "".join(f"z{n}: 1\n" for n in range(30)))

    assert str(error).endswith("and 20 more.")


def test_values_that_may_be_secret_are_not_shown() -> None:
    error = refusal(HEAD + "env: {TOKEN: [hunter2]}\nsecrets: {A: hunter2}\nqueue: [hunter2]\n")

    assert str(error).count("hunter2") == 1  # the name of a Secret, which is none
    assert "env.TOKEN: expected text." in str(error)


def test_aliases_of_aliases_are_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    error = refusal("\n".join(lines))

    assert "more than 20,000 values" in str(error)


@settings(max_examples=300)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("utf-8", "replace")))
def test_any_text_gives_a_workload_or_a_refusal(text: str) -> None:
    for whole in (text, HEAD + text):
        try:
            Workload.parse(whole, name="w")
        except WorkloadError as error:
            assert error.file == "w"


@settings(max_examples=200)
@given(
    key=st.sampled_from(sorted(Workload.model_fields)),
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=6,
    ),
)
def test_any_value_of_any_key_gives_a_workload_or_a_refusal(key: str, value: object) -> None:
    text = yaml.safe_dump({**yaml.safe_load(MINIMAL), key: value}, allow_unicode=True)

    try:
        Workload.parse(text, name="w")
    except WorkloadError as error:
        assert error.file == "w"


def test_a_file_that_cannot_be_read_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(
        WorkloadError, match="Could not read the workload file: No such file or directory"
    ) as caught:
        Workload.read(tmp_path / "missing.yaml")
    assert caught.value.line is None and caught.value.hint

    with pytest.raises(WorkloadError, match="Could not read the workload file: Is a directory"):
        Workload.read(tmp_path)

    (tmp_path / "binary").write_bytes(b"name: \xff\xfe")
    with pytest.raises(WorkloadError, match="is not UTF-8 text"):
        Workload.read(tmp_path / "binary")

    (tmp_path / "large").write_bytes(b"#" * (4 * 1024**2 + 1))
    with pytest.raises(WorkloadError, match="larger than 4 MiB"):
        Workload.read(tmp_path / "large")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(MINIMAL, encoding="utf-8-sig")

    assert Workload.read(tmp_path / "w.yaml").name == "tiny-gpt"


@pytest.mark.parametrize("path", sorted((ROOT / "examples/workloads").glob("*.yaml")), ids=str)
def test_the_examples_are_workloads_and_fit_the_schema(path: Path) -> None:
    Workload.read(path)

    jsonschema_rs.validate(workload_schema(), yaml.safe_load(path.read_text()))


def test_the_schema_knows_every_key_and_refuses_others() -> None:
    schema = workload_schema()

    assert set(schema["properties"]) == set(Workload.model_fields)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(yaml.safe_load(MINIMAL))
    assert not validator.is_valid({**yaml.safe_load(MINIMAL), "chekpoint": {}})
    assert not validator.is_valid({**yaml.safe_load(MINIMAL), "deadline": 3})
    assert validator.is_valid({**yaml.safe_load(MINIMAL), "cluster": {"version": 1.35}})
    assert "P7D" not in str(schema)


def test_the_table_of_keys_is_whole_and_each_has_a_meaning() -> None:
    keys = {key.name: key for key in workload_keys()}

    assert set(Workload.model_fields) <= set(keys)
    assert keys["kind"].default == "required"
    assert keys["cluster.pools[].taints[].effect"].default == "NoSchedule"
    assert keys["max_run"].default == "7d"
    assert "spot, flex-start" in keys["tier"].meaning
    assert all(key.meaning.endswith(".") for key in keys.values())


@pytest.mark.parametrize(("module", "package"), [("pydantic", "pydantic"), ("yaml", "PyYAML")])
def test_a_missing_package_is_asked_for(module: str, package: str) -> None:
    code = f"""
import sys
sys.modules[{module!r}] = None
from outlast.capacity import PlanningPackageMissing
try:
    from outlast.capacity import Workload
    Workload.parse("name: a", name="w")
except PlanningPackageMissing as error:
    print(error, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout == (
        f"Workload files and manifests require {package}, which is not installed. "
        "Run: pip install 'outlast[plan]'\n"
    ), done.stderr


def test_what_needs_no_workload_does_not_load_pydantic() -> None:
    code = "import outlast.capacity.google_cloud, sys; print('pydantic' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
