"""Read a range of an object in pieces, while the rest of it is still arriving.

A piece is copied to its place and released before the next one is asked for. To collect a range
first would cost a copy of it in new memory, and new memory takes longer than the copy.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import obstore
from obstore.exceptions import BaseError

from outlast.storage.objects.errors import status

# Large enough that the calls cost little, small enough that the memory of a piece is used again.
_PIECE_BYTES = 4 * 1024**2


class Download:
    """A range of an object. Whoever asks again after an error gets what is still missing."""

    def __init__(self, client: Any, name: str, start: int, length: int) -> None:
        self._client = client
        self._name = name
        self._at = start
        self._end = start + length
        self._stream: Any = None

    @property
    def bytes_left(self) -> int:
        return self._end - self._at

    async def next_piece(self) -> bytes:
        """The next bytes; none if the object ends here."""
        try:
            if self._stream is None:
                self._stream = await self._open()
            piece: bytes = await anext(self._stream, b"")
        except BaseError as error:
            self._stream = None
            return nothing_beyond_the_end(error)
        piece = piece[: self.bytes_left]
        self._at += len(piece)
        return piece

    async def _open(self) -> Any:
        answer = await obstore.get_async(
            self._client, self._name, options={"range": (self._at, self._end)}
        )
        return answer.stream(min_chunk_size=_PIECE_BYTES)


class ScatteredMemory:
    """Memory in several places, filled in order."""

    def __init__(self, views: Iterable[memoryview]) -> None:
        self._views = deque(views)

    def append(self, piece: bytes) -> None:
        # Imported by its first user, because a sink in an object store does without it.
        import numpy as np

        data = memoryview(piece)
        while len(data):
            view = self._views.popleft()
            count = min(len(view), len(data))
            # NumPy lets other threads run while it copies, and an assignment does not.
            np.copyto(np.frombuffer(view[:count], np.uint8), np.frombuffer(data[:count], np.uint8))
            data = data[count:]
            if count < len(view):
                self._views.appendleft(view[count:])


def nothing_beyond_the_end(error: BaseError) -> bytes:
    """No bytes if the range starts at or after the end of the object; otherwise the error."""
    if status(str(error)) != 416:
        raise error
    return b""
