"""Nothing from a workload file breaks out of YAML, the shell or HCL."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.capacity.errors import WorkloadError
from outlast.capacity.workload.file import Workload
from outlast.manifests.render import as_stream, render
from outlast.manifests.render.terraform import quoted
from outlast.yamltext.writing import scalar_text, to_yaml
from tests.unit.manifests.render_cases import BATCH, MINIMAL, Rendering, rendered, workload

TRICKY = [
    *("", "y", "n", "yes", "No", "ON", "off", "true", "False", "null", "~", "Null"),
    *("0400", "1e3", "0x10", "0o17", "0b1", "1_000", "12:30:45", "1.", ".5", "+1", "-", "1,000"),
    *("2026-01-01", "2026-01-01T00:00:00Z", ".inf", "-.INF", ".nan", "=", "<<", "inf", "NaN"),
    *(
        "- a",
        "a: b",
        "a #b",
        "#a",
        "a:",
        ":a",
        "? a",
        "*a",
        "&a",
        "!a",
        "@a",
        "%a",
        "|",
        ">",
        "`a`",
    ),
    *("'", '"', "\\", "\\n", "a\nb", "a\n\nb\n", "\ta", " a", "a ", "---", "...", "--- a"),
    *("$(id)", "$$(id)", "${HOME}", "%{ if true }", "{{ x }}", "[a", "{a", "a, b", "é…", "😀"),
]


@pytest.mark.parametrize("text", TRICKY, ids=repr)
def test_a_text_stays_the_text_that_it_is(text: str) -> None:
    body = to_yaml({"key": text, text: "value", "list": [text, {"inner": text}]})

    assert yaml.safe_load(body) == {"key": text, text: "value", "list": [text, {"inner": text}]}


@settings(max_examples=300)
@given(st.text())
def test_any_text_is_read_back(text: str) -> None:
    assert yaml.safe_load(f"- {scalar_text(text)}\n") == [text]


@settings(max_examples=200)
@given(st.text(alphabet="yYnNoOeEsStrRuUfFaAlLiInN0123456789.:-+_x~<=", max_size=8))
def test_what_looks_like_a_number_or_a_boolean_is_quoted(text: str) -> None:
    assert yaml.safe_load(f"- {scalar_text(text)}\n") == [text]


@settings(max_examples=100)
@given(
    st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=30), min_size=1, max_size=4)
)
def test_a_command_and_variables_reach_the_process_as_written(words: list[str]) -> None:
    given_env = {f"V{n}": word for n, word in enumerate(words)}
    text = MINIMAL.replace("command: [python, train.py]\n", "")
    try:
        made = Workload.parse(
            text,
            name="w",
            overrides={
                "command": json.dumps(["run", *words], ensure_ascii=False),
                "env": json.dumps(given_env, ensure_ascii=False),
            },
        )
    except WorkloadError as error:
        reasons = ("Control characters", "YAML cannot be read", "an invisible line break")
        assert any(reason in str(error) for reason in reasons)
        return
    rendering = Rendering(render(made))

    assert rendering.container["command"] == ["run", *words]
    env = rendering.env
    assert {name: env[name] for name in given_env} == given_env
    assert [one for one in yaml.safe_load_all(as_stream(rendering.files)) if one] == list(
        rendering.objects.values()
    )


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"], ids=ascii)
def test_a_line_break_that_yaml_would_fold_is_refused(character: str) -> None:
    word = json.dumps(["run", f"a{character}b"], ensure_ascii=False)

    with pytest.raises(WorkloadError, match=rf"U\+{ord(character):04X}, an invisible line break"):
        Workload.parse(MINIMAL, name="w", overrides={"command": word})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "a; rm -rf /"),
        ("name", "a\nkind: x"),
        ("namespace", "$(id)"),
        ("image", "a b"),
        ("image", "a$(id)"),
        ("image", "a\nb"),
        ("machine", "n1`id`"),
        ("cluster.name", "lab$(id)"),
        ("cluster.name", "lab; id"),
        ("cluster.project", "p' --spot '"),
        ("cluster.location", "us ; id"),
        ("cluster.version", "1.35; id"),
        ("cluster.pools", '[{name: "a$(id)"}]'),
        ("cluster.pools", '[{name: a, taints: [{key: "a b"}]}]'),
        ("cluster.pools", '[{name: a, taints: [{key: a, value: "x:NoExecute,y=z"}]}]'),
        ("cluster.pools", '[{name: a, labels: {"a": "b,c=d"}}]'),
        ("cluster.pools", '[{name: a, labels: {"${x}": "b"}}]'),
        ("checkpoint.url", "gs://a$(id)/b"),
        ("checkpoint.url", "gs://a`id`/b"),
        ("checkpoint.url", "gs://bucket/a b"),
        ("checkpoint.url", "gs://bucket/../../etc"),
        ("checkpoint.url", 'gs://bucket/"x'),
        ("service_account.name", "a;id"),
        ("service_account.google", "a@b; id"),
        ("storage.mount", "/a b"),
        ("storage.mount", "/a/../b"),
        ("secrets", '{A: "x/$(id)"}'),
        ("env", '{"A=B": x}'),
        ("accelerator.type", "nvidia-l4,count=99"),
    ],
)
def test_what_could_break_out_of_a_script_is_refused(key: str, value: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        workload(**{key.replace(".", "__"): value})

    assert caught.value.hint is None or "\n" not in caught.value.hint


def test_scripts_pass_odd_but_valid_values_as_single_words(tmp_path: Path) -> None:
    """A stand-in for gcloud writes down its arguments."""
    program = tmp_path / "gcloud"
    program.write_text(
        '#!/usr/bin/env python3\nimport json, sys\nopen("calls", "a").write('
        'json.dumps(sys.argv[1:]) + "\\n")\nprint(7)\n'
    )
    program.chmod(0o755)
    rendering = rendered(
        BATCH,
        queue="pubsub://lab-project/items?subscription=workers~1%2Btwo%252E",
        cluster__project="example.com:lab",
        cluster__name="lab",
    )
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    for path in ("setup/node-pool.sh", "setup/access.sh"):
        script = tmp_path / "script.sh"
        script.write_text(rendering.text(path))
        subprocess.run(["bash", str(script)], cwd=tmp_path, env=environ, check=True)

    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert "--project=example.com:lab" in calls[0]
    assert calls[-1][3:5] == ["workers~1+two%2E", "--project=lab-project"]
    assert calls[1] == ["projects", "describe", "example.com:lab", "--format=value(projectNumber)"]


def test_a_cluster_that_is_not_named_is_asked_for(tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text(rendered().text("setup/node-pool.sh"))
    environ = {"PATH": os.environ["PATH"]}

    done = subprocess.run(["bash", str(script)], env=environ, capture_output=True, text=True)

    assert done.returncode != 0
    assert "Set CLUSTER to the name of the cluster" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", '"plain"'),
        ("${path.root}", '"$${path.root}"'),
        ("%{ if true }", '"%%{ if true }"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\nb", '"a\\nb"'),
    ],
)
def test_terraform_evaluates_nothing_in_a_text(text: str, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize(
    "address",
    [
        "pubsub://lab-project/items?subscription=--flags-file=/tmp/flags",
        "pubsub://lab-project/items?subscription=a%3Btouch%20stolen",
        "pubsub://lab-project/items?subscription=",
        "pubsub://lab-project/items?subscription=workers&subscription=--help",
        "pubsub://lab-project/--flags-file=x",
        "pubsub://lab-project/a/b",
        "pubsub://lab-project/goog-items",
        "pubsub://--project/items",
        "pubsub://lab/items",
        "pubsub://lab-project/items?option=1",
        "pubsub://lab-project/items#part",
    ],
)
def test_a_name_that_pub_sub_does_not_allow_never_reaches_a_script(address: str) -> None:
    with pytest.raises(WorkloadError, match="queue"):
        workload(BATCH, queue=address)


@pytest.mark.parametrize(
    "overrides",
    [
        {"queue": "postgresql://u:hunter2/x@host/db"},
        {"queue": "postgresql://host/db?password=hunter2"},
        {"queue": "postgresql://host/db?sslmode=require&sslpassword=hunter2"},
        {"sink": "gs://lab-results/x?token=hunter2"},
        {"checkpoint.url": "s3://lab-runs/x?X-Amz-Signature=hunter2"},
        {"env": "{HF_TOKEN: hunter2}"},
        {"env": "{DATABASE: 'postgresql://u:hunter2@host/db'}"},
        {"command": "[python, train.py, --token, hunter2]"},
        {"command": "[sh, -c, 'HF_TOKEN=hunter2 python train.py']"},
    ],
    ids=str,
)
def test_no_secret_gets_into_a_manifest(overrides: dict[str, str]) -> None:
    with pytest.raises(WorkloadError, match="secret") as caught:
        workload(BATCH, **{key.replace(".", "__"): value for key, value in overrides.items()})

    assert "hunter2" not in f"{caught.value!r} {caught.value.hint} {caught.value.__notes__}"


def test_a_variable_that_names_a_secret_may_be_used() -> None:
    workload(
        BATCH,
        env="{URL: 'postgresql://u:$(DB_PASSWORD)@host/db', TOKENIZERS_PARALLELISM: 'false'}",
        secrets="{DB_PASSWORD: database/password, HF_TOKEN: hub/token}",
        command="[train, --token, $(HF_TOKEN), --max-tokens, 512, --token-file, /var/token]",
    )


def test_passwords_appear_nowhere() -> None:
    with pytest.raises(
        WorkloadError, match="Store the complete URL in a Kubernetes Secret"
    ) as caught:
        workload(BATCH, queue="postgresql://user:hunter2@host/db")

    assert "hunter2" not in f"{caught.value!r} {caught.value.hint} {caught.value.__notes__}"
