"""What a shell is told to run is cut into its commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.manifests.lint.kubernetes.pod import pods_of
from outlast.manifests.lint.kubernetes.script import ShellScript, script_in, sleep_seconds
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.reading import read
from outlast.yamltext.source import SourceText


def script(command: list[object], args: list[object] | None = None) -> ShellScript | None:
    given = f"{{command: {command!r}, args: {args or []!r}}}"
    text = f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{given}]}}\n"
    manifest = KubernetesObject(SourceText(name="a.yaml", text=text), read(text).documents[0])
    (pod,) = pods_of(manifest)
    return script_in(pod.containers[0], ("command",), ("args",))


@pytest.mark.parametrize(
    ("command", "args", "at"),
    [
        (["sh", "-c", "run"], [], ("command", 2)),
        (["/bin/bash", "-ec"], ["run"], ("args", 0)),
        (["bash"], ["-c", "run"], ("args", 1)),
        (["bash", "-euo", "pipefail", "-c", "run"], [], ("command", 4)),
        (["bash", "--norc", "-xc", "run", "name"], [], ("command", 3)),
    ],
)
def test_a_script_is_found_with_its_place(
    command: list[object], args: list[object], at: tuple[str | int, ...]
) -> None:
    found = script(command, args)

    assert found is not None
    assert (found.text, found.at) == ("run", at)


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-c", "run"],
        ["sh", "run.sh"],
        ["sh", "run.sh", "-c"],
        ["sh"],
        ["sh", "-c"],
        ["outlast", "exec", "--", "sh", "-c", "run"],
        [1, "sh"],
        [],
    ],
)
def test_anything_else_is_no_script(command: list[object]) -> None:
    assert script(command) is None


def programs(text: str) -> list[str]:
    return [call.program for call in ShellScript(shell="sh", text=text, at=()).calls]


def test_commands_are_found_behind_words_of_control_flow() -> None:
    text = (
        "set -e # begin\nif test -f a; then /opt/prepare a; fi\n"
        "X=1 python run.py > log 2>&1 || exit 3\ncat <<EOF\nnot this\nEOF\nwait"
    )

    assert programs(text) == ["set", "test", "prepare", "fi", "python", "exit", "cat", "wait"]


def test_a_place_in_the_script_is_known() -> None:
    found = ShellScript(shell="sh", text="cd /app && python a.py  # go", at=())

    call = found.calls[-1]

    assert found.text[call.start : call.end] == "python a.py"
    assert (found.before(call), found.after(call)) == ("cd /app &&", "")
    assert found.after(found.calls[0]) == "&& python a.py"


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["sleep", "10"], 10),
        (["/bin/sleep", "1.5m", "5s"], 95),
        (["sleep", "infinity"], None),
        (["sleep"], None),
        (["sleep", "$SECONDS"], None),
        (["echo", "10"], None),
    ],
)
def test_sleep_is_measured(words: list[str], seconds: float | None) -> None:
    assert sleep_seconds(words) == seconds


@given(st.text(alphabet="ab =$(){}<>'\"\\\n;&|#-!1", max_size=80))
def test_any_script_is_cut(text: str) -> None:
    for call in ShellScript(shell="sh", text=text, at=()).calls:
        assert 0 <= call.start < call.end <= len(text)
