"""Reading the kubeconfig: merged as kubectl does, and every mistake has one hint."""

import base64
from pathlib import Path

import pytest

from outlast.cluster.connection.kubeconfig import ClusterAccess, find_access
from outlast.cluster.errors import ClusterError
from tests.unit.cluster.kubeconfigs import write_kubeconfig


def _find(environ: dict[str, str], context: str | None = None, **paths: Path) -> ClusterAccess:
    return find_access(environ=environ, context=context, **paths)


def test_of_several_files_the_first_that_has_an_entry_counts(tmp_path: Path) -> None:
    first = write_kubeconfig(tmp_path / "a", "https://one", name="x", current=False)
    second = write_kubeconfig(tmp_path / "b", "https://two", name="x")
    third = write_kubeconfig(tmp_path / "c", "https://three", name="y")
    missing = tmp_path / "missing"

    environ = {"KUBECONFIG": f"{first}:{missing}:{second}:{third}"}

    assert _find(environ).server == "https://one"
    assert _find(environ).context == "x"
    assert _find(environ, "y").server == "https://three"


def test_the_default_file_is_that_of_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path / ".kube" / "config", "https://home")

    assert _find({"HOME": str(tmp_path)}).server == "https://home"


def test_a_named_file_comes_before_the_variable(tmp_path: Path) -> None:
    named = write_kubeconfig(tmp_path / "a", "https://named")
    other = write_kubeconfig(tmp_path / "b", "https://other")

    assert _find({"KUBECONFIG": str(other)}, kubeconfig=named).server == "https://named"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    folder = tmp_path / "kube"
    folder.mkdir()
    (folder / "ca.pem").write_bytes(b"authority")
    file = write_kubeconfig(
        folder / "config",
        "https://one",
        cluster={"certificate-authority": "ca.pem"},
        user={"tokenFile": "token", "client-key-data": base64.b64encode(b"key").decode()},
    )

    access = _find({}, kubeconfig=file)

    assert access.authority == b"authority"
    assert access.user.token_file == folder / "token"
    assert access.user.key == b"key"


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("namespace", "team-b"), ("ca.crt", "pem")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    access = find_access(environ=environ, service_account=tmp_path)

    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "team-b"
    assert access.user.token_file == tmp_path / "token"


def test_impersonation_is_never_dropped(tmp_path: Path) -> None:
    user = {"token": "t", "as": "ann", "as-groups": ["a", "b"], "as-user-extra": {"k": ["v"]}}
    file = write_kubeconfig(tmp_path / "a", "https://one", user=user)

    headers = _find({}, kubeconfig=file).user.impersonated

    assert headers == {
        "Impersonate-User": ("ann",),
        "Impersonate-Group": ("a", "b"),
        "Impersonate-Extra-k": ("v",),
    }


def test_secrets_are_not_in_the_representation(tmp_path: Path) -> None:
    user = {"token": "hunter2", "password": "hunter3", "username": "u"}
    file = write_kubeconfig(tmp_path / "a", "https://one", user=user)

    assert "hunter" not in repr(_find({}, kubeconfig=file))


def test_nothing_at_all_is_one_error_with_a_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="No kubeconfig was found") as caught:
        find_access(environ={"HOME": str(tmp_path)}, service_account=tmp_path)

    assert "get-credentials" in (caught.value.hint or "")
    assert caught.value.exit_code == 2


def test_a_wrong_context_names_the_ones_there_are(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "a", "https://one", name="gke_p_us-central1_ml")

    with pytest.raises(ClusterError, match="no context 'gke_p_us-central1_mm'") as caught:
        _find({}, "gke_p_us-central1_mm", kubeconfig=file)

    assert "Did you mean 'gke_p_us-central1_ml'?" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not YAML"),
        ("- a", "has no mapping"),
        ("contexts: []", "has no current context"),
        ("current-context: x\ncontexts: 7", "no context 'x'"),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]",
            "no cluster of context 'x': 'y'",
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n"
            "clusters: [{name: y, cluster: {server: example}}]",
            "no valid server address: 'example'",
        ),
    ],
    ids=["yaml", "list", "none", "no-context", "no-cluster", "no-server"],
)
def test_a_broken_file_is_one_error(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(ClusterError, match=words) as caught:
        _find({}, kubeconfig=file)

    assert caught.value.hint


def test_an_error_in_a_file_does_not_quote_its_tokens(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("users: [{user: {token: hunter2}\n  : x")

    with pytest.raises(ClusterError) as caught:
        _find({}, kubeconfig=file)

    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="There is no kubeconfig"):
        _find({}, kubeconfig=tmp_path / "nosuch")


def test_an_auth_provider_is_refused(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "a", "https://one", user={"auth-provider": {"name": "gcp"}})

    with pytest.raises(ClusterError, match="which Kubernetes removed"):
        _find({}, kubeconfig=file)
