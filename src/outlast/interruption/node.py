"""Read from the Kubernetes API when this Pod's node expires.

One request with the Pod's service account. If the role does not allow it, the annotation is missing
or the server cannot be reached, the expiry is unknown.
"""

import json
import os
import re
import ssl
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from outlast._base.http import RequestErrors, connection_to, get
from outlast._base.logs import get_logger
from outlast.interruption.machine import SERVICE_ACCOUNT_FOLDER

log = get_logger(__name__)

ANNOTATION = "node.gke.io/machine-termination-datetime"
SERVICE_ACCOUNT = Path(SERVICE_ACCOUNT_FOLDER)

_ANSWER_SECONDS_MAX = 5.0
_BODY_BYTES_MAX = 4 * 1024**2
_TRIES_MAX = 5
_PAUSE_SECONDS = 3.0
_JOIN_SECONDS_MAX = 1.0


class NodeExpiryLookup:
    """Calls `on_answer` at most once, with the node's expiry, from its own thread."""

    def __init__(
        self,
        node_name: str,
        on_answer: Callable[[datetime], object],
        *,
        service_account: Path = SERVICE_ACCOUNT,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._node_name = node_name
        self._on_answer = on_answer
        self._service_account = service_account
        self._environ = environ
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlast-node-expiry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(_JOIN_SECONDS_MAX)

    def _run(self) -> None:
        for _ in range(_TRIES_MAX):
            try:
                annotation = self._ask()
            except PermissionError as error:
                log.info("The expiry of node %s is unknown: %s", self._node_name, error)
                return
            except RequestErrors as error:
                log.info("Reading the expiry of node %s failed: %r", self._node_name, error)
            else:
                if annotation is not None and not self._stop.is_set():
                    self._on_answer(annotation)
                return
            if self._stop.wait(_PAUSE_SECONDS):
                return

    def _ask(self) -> datetime | None:
        token = (self._service_account / "token").read_text().strip()
        if not re.fullmatch(r"[!-~]+", token):
            # The HTTP library would quote it in its error.
            raise PermissionError("the service account token is malformed")
        response = get(
            connection_to(
                self._environ["KUBERNETES_SERVICE_HOST"],
                int(self._environ.get("KUBERNETES_SERVICE_PORT") or 443),
                tls=ssl.create_default_context(cafile=str(self._service_account / "ca.crt")),
            ),
            f"/api/v1/nodes/{self._node_name}",
            {"Authorization": f"Bearer {token}", "Accept": "application/json"},
            silence_seconds_max=_ANSWER_SECONDS_MAX,
            body_bytes_max=_BODY_BYTES_MAX,
        )
        if response.status in (401, 403, 404):
            raise PermissionError(f"the API server responded with status {response.status}")
        if response.status != 200:
            raise ValueError(f"status {response.status}")
        return expiry_of(json.loads(response.body))


def expiry_of(node: object) -> datetime | None:
    """The expiry in a Node object, if there is one."""
    metadata = node.get("metadata") if isinstance(node, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(text, str):
        return None
    instant = datetime.fromisoformat(text)
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
