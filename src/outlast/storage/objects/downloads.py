"""Read a range of an object in pieces, while the rest of it is still arriving.

A piece is copied to its place and released before the next one is asked for. To collect a range
first would cost a copy of it in new memory, and new memory takes longer than the copy.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import obstore
from obstore.exceptions import BaseError

from outlast.storage.objects.errors import status

# Large enough that the calls cost little, small enough that the memory of a piece is used again.
_PIECE_BYTES = 1024**2


class Download:
    """A range of an object. After an error, what is still missing can be asked for again."""

    def __init__(self, client: Any, name: str, start: int, length: int) -> None:
        self._client = client
        self._name = name
        self._at = start
        self._end = start + length

    async def begin(self) -> Iterator[bytes]:
        """Ask for the bytes that are missing. `pieces` takes what this returns."""
        options: Any = {"range": (self._at, self._end)}
        try:
            answer = await obstore.get_async(self._client, self._name, options=options)
        except BaseError as error:
            return iter([nothing_beyond_the_end(error)])
        return answer.stream(min_chunk_size=_PIECE_BYTES)

    def pieces(self, arriving: Iterator[bytes]) -> Iterator[bytes]:
        """The bytes of an answer, as they arrive.

        It waits in the calling thread, which costs less than a call to the event loop for each
        piece. An answer that does not arrive ends with the time limit of the request.
        """
        for piece in arriving:
            wanted = piece[: self._end - self._at]
            self._at += len(wanted)
            yield wanted

    @property
    def is_complete(self) -> bool:
        return self._at == self._end


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
