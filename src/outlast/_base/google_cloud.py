"""Facts about Google Cloud: the regions of buckets, and the rules for resource names. Pure."""

import re

DUAL_REGIONS = {
    "asia1": ("asia-northeast1", "asia-northeast2"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "nam4": ("us-central1", "us-east1"),
}

MULTI_REGIONS = {"us": "us-", "eu": "europe-", "asia": "asia-"}
"""The prefix of the names of their regions."""


_PROJECT = re.compile(r"[a-z][a-z0-9.:-]{4,61}[a-z0-9]")
_RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9._~+%-]{2,254}")


def is_project(name: str) -> bool:
    """Whether this is a valid project. Old ones may start with a domain: example.com:name."""
    return _PROJECT.fullmatch(name) is not None


def is_topic_or_subscription(name: str) -> bool:
    return _RESOURCE.fullmatch(name) is not None and not name.startswith("goog")
