"""Facts about this machine that are known without a network request."""

import os
import time
from collections.abc import Mapping

SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_GOOGLE_METADATA_HOST = "169.254.169.254"


def in_pod(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this is a container in Kubernetes, where a Job counts exit 0 as completion."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def has_service_account() -> bool:
    """Whether this Pod may ask the API server of its cluster."""
    return os.path.exists(f"{SERVICE_ACCOUNT_FOLDER}/token")  # noqa: PTH110


def google_metadata_host(product_name: str = "/sys/class/dmi/id/product_name") -> str | None:
    """The address of the metadata server on a Compute Engine VM; None elsewhere.

    Decided by the firmware's product name, so that no packet is sent on other machines.
    """
    try:
        # Not pathlib, whose import would add a quarter to the start of `outlast exec`.
        with open(product_name) as file:  # noqa: PTH123
            is_google = file.read().startswith("Google")
    except OSError:
        return None
    return _GOOGLE_METADATA_HOST if is_google else None


def seconds_since_boot() -> float:
    # Linux counts suspended time only in this clock; elsewhere the monotonic clock is closest.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
