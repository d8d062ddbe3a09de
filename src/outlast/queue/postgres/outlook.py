"""Where the claims of one process look for items, so that they do not read what others have left.

Pure. Rows that were deleted stay in an index until the server vacuums it. A claim that started at
the first of them would take longer with every item that is done.
"""

import math
from typing import NamedTuple

from outlast.queue.items import Lease

# How often a fast worker looks for items that are due, and how far its clock may be off.
_DUE_SECONDS = 0.02
_SLACK_SECONDS = 0.1
# How often a claim looks everywhere, and the share of the time that this may take.
_EVERYWHERE_SECONDS = 1.0
_EVERYWHERE_SHARE = 0.01
_ALL_SECONDS = 1e9


class QueueView(NamedTuple):
    """Where a claim looks: from this ID on, and for what became due in the last `due_seconds`.

    None means not to look for what is due. `known_id` is where the last claim found items.
    """

    first_id: int
    due_seconds: float | None
    began: float
    known_id: int

    @property
    def is_complete(self) -> bool:
        return self.due_seconds == _ALL_SECONDS


class Outlook:
    """What the claims of this process have seen.

    Now and then a claim looks everywhere: for items with lower IDs whose publisher took longer to
    commit, and for what was locked by another process that then gave up.
    """

    def __init__(self) -> None:
        self._known_id = 0
        self._looked_at = -math.inf
        self._everywhere_at = -math.inf

    def next(self, now: float) -> QueueView:
        """Where the next claim looks."""
        known_id = self._known_id
        if now >= self._everywhere_at:
            return QueueView(0, _ALL_SECONDS, now, known_id)
        since = now - self._looked_at
        due_seconds = None if since < _DUE_SECONDS else since + _SLACK_SECONDS
        return QueueView(known_id, due_seconds, now, known_id)

    def claimed(
        self, lease: Lease | None, view: QueueView, brought_all_back: bool | None, *, now: float
    ) -> None:
        """Take note of what a claim found."""
        if brought_all_back:
            self._looked_at = view.began
            if view.is_complete:
                pause_seconds = (now - view.began) / _EVERYWHERE_SHARE
                self._everywhere_at = now + max(_EVERYWHERE_SECONDS, pause_seconds)
        elif brought_all_back is not None:
            # There is more than one claim brings back.
            self._everywhere_at = now
        if lease is not None:
            ids, is_alone = lease.handle
            if not is_alone:
                self._known_id = max(self._known_id, ids[0])
