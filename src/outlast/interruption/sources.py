"""Where notices come from besides signals: the metadata server, and the API of the cluster.

Each is asked in threads of its own, and only if a guard names it.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from outlast._base.logs import get_logger
from outlast.interruption.expiry import ExpiryClock, WallExpiry, is_credible, wrong_clock_warning
from outlast.interruption.machine import has_service_account
from outlast.interruption.notice import PREEMPTION_WINDOW_SECONDS, Announcement, NoticeSource
from outlast.interruption.settings import GuardSettings

log = get_logger(__name__)


class _NoticeSource(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...


class NoticeSources:
    """Starts each source once. They call `announce` and `set_expiry` from their own threads."""

    def __init__(
        self,
        announce: Callable[[Announcement], object],
        set_expiry: Callable[[ExpiryClock], object],
    ) -> None:
        self._announce = announce
        self._set_expiry = set_expiry
        self._started: dict[tuple[str, str], list[_NoticeSource]] = {}

    def start(self, settings: GuardSettings) -> None:
        """Start the sources that these settings name, unless they are running."""
        # Imported here, because HTTP and TLS are slow to import and few processes need them.
        host, node = settings.metadata_host, settings.node_name
        if host is not None and ("metadata", host) not in self._started:
            from outlast.interruption.metadata import MAINTENANCE, PREEMPTED, MetadataPoll

            self._start(
                ("metadata", host),
                MetadataPoll(host, PREEMPTED, self._on_preempted),
                MetadataPoll(host, MAINTENANCE, self._on_maintenance),
            )
        if node is not None and settings.expires_at is None and ("node", node) not in self._started:
            # Most Pods know the name of their node, but have no account to ask with.
            if not has_service_account():
                return
            from outlast.interruption.node import NodeExpiryLookup

            self._start(("node", node), NodeExpiryLookup(node, self._on_node_expiry))

    def close(self) -> None:
        for sources in self._started.values():
            for source in sources:
                source.close()

    def _start(self, key: tuple[str, str], *sources: _NoticeSource) -> None:
        started = self._started[key] = []
        for source in sources:
            source.start()
            started.append(source)

    def _on_preempted(self, value: str) -> None:
        if value == "TRUE":
            self._announce(
                Announcement(
                    source=NoticeSource.PREEMPTION,
                    reason="Compute Engine is preempting this VM",
                    arrived=time.monotonic(),
                    window_seconds=PREEMPTION_WINDOW_SECONDS,
                )
            )

    def _on_maintenance(self, value: str) -> None:
        if value == "TERMINATE_ON_HOST_MAINTENANCE":
            self._announce(
                Announcement(
                    source=NoticeSource.MAINTENANCE, reason=value, arrived=time.monotonic()
                )
            )

    def _on_node_expiry(self, expires_at: datetime) -> None:
        clock = WallExpiry(expires_at=expires_at, source="the node's termination time")
        if is_credible(clock):
            self._set_expiry(clock)
        else:
            log.warning(wrong_clock_warning(clock))
