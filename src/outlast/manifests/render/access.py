"""The account the Pods run as, its role for reading nodes, and the script that grants it access."""

import json
import shlex
from urllib.parse import parse_qs, urlsplit

from outlast.capacity.workload.addresses import Bucket, bucket_of
from outlast.manifests.render.files import SETUP, RenderedFile, manifest
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value

_RBAC = "rbac.authorization.k8s.io"
_READER = "outlast-node-reader"


def access_file(resolved: ResolvedWorkload) -> RenderedFile | None:
    grants = [*_bucket_grants(resolved), *_subscription_grants(resolved)]
    if not grants:
        return None
    text = "\n".join(
        [
            "#!/usr/bin/env bash",
            "# Grants the service account access to the data of the workload. Run it once.",
            "# Access is granted to the Kubernetes account itself: no key is created or stored.",
            "set -euo pipefail",
            "",
            f"PROJECT={_project(resolved)}",
            *_member(resolved),
            "",
            "\n\n".join(grants),
            "",
        ]
    )
    return RenderedFile(path=f"{SETUP}/access.sh", text=text)


def _project(resolved: ResolvedWorkload) -> str:
    project = resolved.workload.cluster.project
    if project is not None:
        return shlex.quote(project)
    return '"${PROJECT:?Set PROJECT to the project of the cluster}"'


def _member(resolved: ResolvedWorkload) -> list[str]:
    subject = f"ns/{resolved.namespace}/sa/{resolved.service_account}"
    google = resolved.workload.service_account.google
    if google is None:
        return [
            'NUMBER="$(gcloud projects describe "$PROJECT" --format=\'value(projectNumber)\')"',
            'POOL="projects/$NUMBER/locations/global/workloadIdentityPools/$PROJECT.svc.id.goog"',
            f'MEMBER="principal://iam.googleapis.com/$POOL/subject/{subject}"',
        ]
    account = f"[{resolved.namespace}/{resolved.service_account}]"
    return [
        f"MEMBER=serviceAccount:{shlex.quote(google)}",
        "",
        "# The Kubernetes service account may act as the Google service account.",
        f"gcloud iam service-accounts add-iam-policy-binding {shlex.quote(google)} \\",
        '  --project="$PROJECT" \\',
        "  --role=roles/iam.workloadIdentityUser \\",
        f'  --member="serviceAccount:$PROJECT.svc.id.goog{account}"',
    ]


def _bucket_grants(resolved: ResolvedWorkload) -> list[str]:
    urls = [
        resolved.workload.checkpoint.url if resolved.workload.checkpoint else None,
        resolved.workload.sink.url if resolved.workload.sink else None,
    ]
    places = dict.fromkeys(bucket_of(url) for url in urls if url and url.startswith("gs://"))
    grants = [_bucket_grant(place) for place in places]
    if resolved.uses_fuse and urls[0] is not None and bucket_of(urls[0]).folder:
        grants.append(_listing_grant(bucket_of(urls[0])))
    return grants


def _bucket_grant(place: Bucket) -> str:
    command = (
        f"gcloud storage buckets add-iam-policy-binding {shlex.quote('gs://' + place.name)} \\\n"
        '  --member="$MEMBER" \\\n'
        "  --role=roles/storage.objectUser \\\n"
    )
    if not place.folder:
        reason = "# The URL names no folder, so this grants access to the entire bucket.\n"
        return f"{reason}{command}  --condition=None"
    condition = json.dumps(
        {"title": f"outlast {place.folder}"[:100], "expression": _expression(place)}, indent=2
    )
    return (
        f"# Can read, write and list {shlex.quote(place.folder + '/')} only.\n"
        "# Conditions require uniform bucket-level access. To turn it on:\n"
        f"#   gcloud storage buckets update {shlex.quote('gs://' + place.name)} "
        "--uniform-bucket-level-access\n"
        f"{command}  --condition-from-file=- <<'CONDITION'\n{condition}\nCONDITION"
    )


def _expression(place: Bucket) -> str:
    """Objects are matched by resource name; list requests go to the bucket and match by prefix."""
    # URLs contain neither quotes nor backslashes, so they cannot end these strings.
    objects = f"projects/_/buckets/{place.name}/objects/{place.folder}/"
    return (
        f'resource.name.startsWith("{objects}") || '
        'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
        f'.startsWith("{place.folder}/")'
    )


def _listing_grant(place: Bucket) -> str:
    return (
        "# The FUSE driver lists the bucket before it mounts the folder. This role can list the\n"
        "# names in the entire bucket, but cannot read any object.\n"
        f"gcloud storage buckets add-iam-policy-binding {shlex.quote('gs://' + place.name)} \\\n"
        '  --member="$MEMBER" \\\n'
        "  --role=roles/storage.legacyBucketReader \\\n"
        "  --condition=None"
    )


def _subscription_grants(resolved: ResolvedWorkload) -> list[str]:
    url = resolved.workload.queue.url if resolved.workload.queue else None
    if url is None or not url.startswith("pubsub://"):
        return []
    parts = urlsplit(url)
    topic = parts.path.strip("/")
    subscription = parse_qs(parts.query).get("subscription", [topic])[0]
    return [
        f"gcloud pubsub subscriptions add-iam-policy-binding {shlex.quote(subscription)} \\\n"
        f"  --project={shlex.quote(parts.netloc)} \\\n"
        '  --member="$MEMBER" \\\n'
        "  --role=roles/pubsub.subscriber"
    ]


def service_account_file(resolved: ResolvedWorkload) -> RenderedFile:
    metadata: dict[str, Value] = {
        "name": resolved.service_account,
        "namespace": resolved.namespace,
        "labels": resolved.labels,
    }
    reason = (
        "Workload Identity: setup/access.sh grants this account access to the bucket. No key is "
        "needed."
    )
    if resolved.workload.service_account.google is not None:
        metadata["annotations"] = {
            "iam.gke.io/gcp-service-account": resolved.workload.service_account.google
        }
        reason = (
            "Workload Identity: Pods act as the Google service account below; no key is needed."
        )
    body: dict[str, Value] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    body["automountServiceAccountToken"] = (
        Commented(True, "Outlast asks the API server when the Pod's own node expires.")
        if resolved.has_lease
        else Commented(False, "Nothing in the Pod calls the API server.")
    )
    return manifest("20-service-account.yaml", body, reason=reason)


def node_reader_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    """A role to `get` nodes, bound to the account, if the workload runs on nodes with a lease."""
    if not resolved.has_lease:
        return []
    role: Value = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _READER, "labels": {"app.kubernetes.io/managed-by": "outlast"}},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
    }
    binding: Value = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            # RBAC names may contain colons, and the parts cannot: no two accounts share one.
            "name": f"{_READER}:{resolved.namespace}:{resolved.service_account}",
            "labels": resolved.labels,
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _READER},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": resolved.service_account,
                "namespace": resolved.namespace,
            }
        ],
    }
    reason = (
        "The end of a flex-start lease is in the Node's annotation "
        "node.gke.io/machine-termination-datetime. Nodes have no namespace, so this has to be a "
        "ClusterRole; it is read-only."
    )
    return [
        manifest("21-cluster-role.yaml", role, reason=reason),
        manifest("22-cluster-role-binding.yaml", binding),
    ]
