"""The script that lets the Pods' account reach its buckets and its subscription."""

import shlex
from urllib.parse import parse_qs, urlsplit

from outlast.capacity.addresses import bucket_of
from outlast.manifests.render.files import SETUP, RenderedFile
from outlast.manifests.render.settled import Settled


def access_file(settled: Settled) -> RenderedFile | None:
    grants = [*_bucket_grants(settled), *_subscription_grants(settled)]
    if not grants:
        return None
    text = "\n".join(
        [
            "#!/usr/bin/env bash",
            "# Lets the workload's service account reach what it reads and writes. Run it once.",
            "# Access is given to the Kubernetes account itself: no key is made or stored.",
            "set -euo pipefail",
            "",
            f"PROJECT={_project(settled)}",
            *_member(settled),
            "",
            "\n\n".join(grants),
            "",
        ]
    )
    return RenderedFile(path=f"{SETUP}/access.sh", text=text)


def _project(settled: Settled) -> str:
    project = settled.workload.cluster.project
    if project is not None:
        return shlex.quote(project)
    return '"${PROJECT:?Set PROJECT to the project of the cluster}"'


def _member(settled: Settled) -> list[str]:
    subject = f"ns/{settled.namespace}/sa/{settled.service_account}"
    google = settled.workload.service_account.google
    if google is None:
        return [
            'NUMBER="$(gcloud projects describe "$PROJECT" --format=\'value(projectNumber)\')"',
            'POOL="projects/$NUMBER/locations/global/workloadIdentityPools/$PROJECT.svc.id.goog"',
            f'MEMBER="principal://iam.googleapis.com/$POOL/subject/{subject}"',
        ]
    account = f"[{settled.namespace}/{settled.service_account}]"
    return [
        f"MEMBER=serviceAccount:{shlex.quote(google)}",
        "",
        "# The Kubernetes account may act as the Google one.",
        f"gcloud iam service-accounts add-iam-policy-binding {shlex.quote(google)} \\",
        '  --project="$PROJECT" \\',
        "  --role=roles/iam.workloadIdentityUser \\",
        f'  --member="serviceAccount:$PROJECT.svc.id.goog{account}"',
    ]


def _bucket_grants(settled: Settled) -> list[str]:
    urls = [
        settled.workload.checkpoint.url if settled.workload.checkpoint else None,
        settled.workload.sink.url if settled.workload.sink else None,
    ]
    names = dict.fromkeys(bucket_of(url).name for url in urls if url and url.startswith("gs://"))
    return [
        f"gcloud storage buckets add-iam-policy-binding {shlex.quote('gs://' + name)} \\\n"
        '  --member="$MEMBER" \\\n'
        "  --role=roles/storage.objectUser"
        for name in names
    ]


def _subscription_grants(settled: Settled) -> list[str]:
    url = settled.workload.queue.url if settled.workload.queue else None
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
