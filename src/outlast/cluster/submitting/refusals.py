"""Explain to the user why the API server refused an object, and what to do. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from outlast.cluster.errors import ApiRefusal, permission_hint, shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Why an object cannot be submitted, and what to do."""

    text: str
    hint: str


def explain(refusal: ApiRefusal, title: str) -> Problem:
    """What a refusal means for the user."""
    if refusal.is_immutable:
        fields = ", ".join(refusal.fields) or "a part of it"
        return Problem(
            text=f"{title} exists, and its {shown(fields, characters_max=200)} cannot be changed.",
            hint="--replace deletes it and creates it again; the run resumes from its newest "
            "checkpoint.",
        )
    for matches, hint in _EXPLANATIONS:
        if matches(refusal):
            return Problem(text=f"{title}: {shown(refusal.text)}", hint=hint)
    if refusal.status == 403:
        return Problem(text=f"{title}: {shown(refusal.text)}", hint=permission_hint(refusal.text))
    if refusal.conflicts:
        owners = "; ".join(shown(text, characters_max=200) for text in refusal.conflicts[:3])
        return Problem(
            text=f"{title}: another program has changed fields that the file sets: {owners}.",
            hint="Remove these fields from the file, or stop the other program from setting them.",
        )
    return Problem(text=f"{title}: {shown(refusal.text)}", hint="Fix the object in the file.")


_EXPLANATIONS: tuple[tuple[Callable[[ApiRefusal], bool], str], ...] = (
    (
        # The API server answers 500 to server-side apply of an unknown field.
        lambda refusal: (
            "field not declared in schema" in refusal.text or "unknown field" in refusal.text
        ),
        "The API server does not know this field. Fix its name, or upgrade the cluster.",
    ),
    (
        lambda refusal: refusal.status == 404 and "namespaces" in refusal.text,
        "Create the namespace: run it with --setup, or kubectl create namespace NAME.",
    ),
)


def install_hint(api_version: str) -> str:
    group = api_version.partition("/")[0]
    known = {
        "jobset.x-k8s.io": "Install JobSet: https://jobset.sigs.k8s.io/docs/installation/",
        "kueue.x-k8s.io": "Install Kueue: https://kueue.sigs.k8s.io/docs/installation/",
        "monitoring.googleapis.com": "Enable managed collection: gcloud container clusters update "
        "CLUSTER --enable-managed-prometheus",
        "cloud.google.com": "ComputeClasses need GKE 1.30.3-gke.1451000 or later.",
    }
    return known.get(group, f"Install what serves {api_version}, or leave the object out.")
