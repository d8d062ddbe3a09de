"""Credential plugins, run for real: small scripts that print what a plugin would."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from outlast.cluster.connection.credentials import CredentialSource
from outlast.cluster.connection.kubeconfig import find_access
from outlast.cluster.errors import ClusterError, ClusterUnreachable
from tests.unit.cluster.kubeconfigs import write_kubeconfig


def _source(tmp_path: Path, script: str, **exec_entry: Any) -> CredentialSource:
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    entry = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "interactiveMode": "Never",
        **exec_entry,
    }
    file = write_kubeconfig(tmp_path / "config", "https://one", user={"exec": entry})
    return CredentialSource(find_access(kubeconfig=file))


def _printed(version: str = "v1", **status: str) -> str:
    answer = {"apiVersion": f"client.authentication.k8s.io/{version}", "status": status}
    return f"echo '{json.dumps(answer)}'"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_gives_the_token(tmp_path: Path, version: str) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    source = _source(tmp_path, _printed(version, token="abc"), apiVersion=api_version)

    assert source.current().authorization == "Bearer abc"
    source.current()

    assert (tmp_path / "runs").read_text().count("run") == 1


def test_a_plugin_gets_its_variables_and_the_cluster(tmp_path: Path) -> None:
    script = f'printf "%s %s" "$ZONE" "$KUBERNETES_EXEC_INFO" > {tmp_path}/seen\n' + _printed(
        token="abc"
    )
    env = [{"name": "ZONE", "value": "b"}]
    _source(tmp_path, script, env=env, provideClusterInfo=True).current()

    zone, _, info = (tmp_path / "seen").read_text().partition(" ")
    spec = json.loads(info)["spec"]
    assert zone == "b"
    assert spec["interactive"] is False
    assert spec["cluster"]["server"] == "https://one"


def test_a_refused_token_is_replaced_once_for_all_threads(tmp_path: Path) -> None:
    count = f"$(wc -l < {tmp_path}/runs)"
    answer = '{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t%s"}}'
    source = _source(tmp_path, f"printf '{answer}' {count}")
    first = source.current()

    assert source.renew(first)
    assert source.renew(first)

    assert source.current().authorization == "Bearer t2"
    assert (tmp_path / "runs").read_text().count("run") == 2


def test_a_credential_that_is_printed_expired_is_used_until_it_is_refused(tmp_path: Path) -> None:
    script = _printed(token="abc", expirationTimestamp="2020-01-01T00:00:00Z")
    source = _source(tmp_path, script)

    # A clock is wrong, here or there, and the plugin must not run for every request.
    assert source.current().authorization == "Bearer abc"
    source.current()

    assert (tmp_path / "runs").read_text().count("run") == 1


def test_a_credential_is_replaced_before_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr("outlast.cluster.connection.credentials.time.time", lambda: now)
    source = _source(tmp_path, _printed(token="abc", expirationTimestamp="2027-01-15T09:00:00Z"))
    source.current()
    source.current()
    assert (tmp_path / "runs").read_text().count("run") == 1

    now += 3600 - 20
    source.current()

    assert (tmp_path / "runs").read_text().count("run") == 2


def test_a_token_file_is_read_again_when_it_was_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    file = write_kubeconfig(tmp_path / "config", "https://one", user={"tokenFile": "token"})
    source = CredentialSource(find_access(kubeconfig=file))
    first = source.current()
    assert not source.renew(first)

    (tmp_path / "token").write_text("new\n")

    assert source.renew(source.current())
    assert source.current().authorization == "Bearer new"


def test_a_missing_plugin_says_how_to_install_it(tmp_path: Path) -> None:
    source = _source(tmp_path, "", command="gke-gcloud-auth-plugin-nosuch", installHint="Get\nit.")

    with pytest.raises(ClusterError, match="is not installed") as caught:
        source.current()

    assert caught.value.hint == "Get it."
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'please log in' >&2; exit 3", "exit code 3, please log in"),
        (
            "printf '(err: ERROR: No account.\\nRun:\\n  gcloud auth login\\n)' >&2; exit 1",
            "exit code 1, ERROR: No account.",
        ),
        ("printf '\\033[31mred' >&2; exit 3", r"\\x1b\[31mred"),
        ("echo secret", "not an ExecCredential"),
        ("echo '[]'", "not an ExecCredential"),
        (_printed("v1beta1", token="abc"), "answered as"),
        (_printed(), "neither a token nor a certificate"),
        (_printed(token="abc", expirationTimestamp="soon"), "not an ExecCredential"),
    ],
    ids=["fails", "gcloud", "colors", "text", "list", "version", "empty", "time"],
)
def test_a_plugin_that_fails_is_one_error(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(ClusterUnreachable, match=words) as caught:
        _source(tmp_path, script).current()

    assert caught.value.is_final
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_an_old_plugin_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="v1alpha1"):
        _source(tmp_path, "", apiVersion="client.authentication.k8s.io/v1alpha1").current()
