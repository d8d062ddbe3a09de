"""Write a staged state into packs. Nothing of it is visible before the commit.

If killed: packs without a manifest, which the next garbage collection deletes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from outlast.checkpoint.format.envelope import digest_of
from outlast.checkpoint.format.layout import CHUNK_BYTES, SMALL_BYTES_MAX, Layout, waves
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk
from outlast.checkpoint.saving.packing import PackedChunks, PackWriter
from outlast.checkpoint.saving.staging import StagingBuffer
from outlast.checkpoint.state.tree import Tree
from outlast.storage import ROUTINE, Limits


class SaveLimits:
    """The limits of all calls to the store: routine ones, until the process has to exit."""

    def __init__(self) -> None:
        self._limits: Callable[[], Limits] = lambda: ROUTINE
        self.hurried = False
        """Whether the process has to exit: no housekeeping from now on."""

    def __call__(self) -> Limits:
        return self._limits()

    def hurry(self, limits: Callable[[], Limits]) -> None:
        """From now on, ask `limits` before each call."""
        self._limits = limits
        self.hurried = True


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedState:
    """A state that is ready to be written.

    With `wave_bytes_max` it does not fit into memory: it is staged and written in parts.
    """

    step: int
    tree: Tree
    layout: Layout
    stall_seconds: float
    started: float
    wave_bytes_max: int | None = None


class StateWriter:
    """Writes staged states as packs."""

    def __init__(self, buffer: StagingBuffer, packs: PackWriter, limits: SaveLimits) -> None:
        self._buffer = buffer
        self._packs = packs
        self._limits = limits
        self._last: tuple[int, str] | None = None

    def write(
        self, staged: StagedState, during_last: Callable[[], object] | None = None
    ) -> PackedChunks:
        """Write all chunks that the store does not have yet. See `PackWriter.pack`."""
        if staged.wave_bytes_max is None:
            chunks = staged.layout.chunks
            return self._packs.pack(
                self._buffer, chunks, limits=self._limits, during_last=during_last
            )
        return self._write_in_waves(staged, staged.wave_bytes_max)

    def mirror(self, chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
        """Write second copies of shared chunks that are still staged. See `PackWriter.mirror`."""
        return self._packs.mirror(
            self._buffer, chunks, limits=self._limits, stop=lambda: self._limits.hurried
        )

    def is_unchanged(self, staged: StagedState, manifest: CheckpointManifest) -> bool:
        """Whether the user's state, without random generators, is the same as in the last save."""
        if staged.wave_bytes_max is not None:
            # Only the last wave is still in memory.
            return False
        text = "".join(self._fingerprints(staged, manifest))
        before, self._last = self._last, (staged.step, digest_of(text.encode()))
        return before is not None and before[0] != staged.step and before[1] == self._last[1]

    def _fingerprints(self, staged: StagedState, manifest: CheckpointManifest) -> Iterator[str]:
        digests = {chunk.span.start: chunk.digest for chunk in manifest.chunks}
        yield repr([item for key, item in manifest.root["d"] if key == "state"])
        for leaf, place in zip(staged.tree.leaves, staged.layout.places, strict=True):
            if not leaf.path.startswith("state") or not place.length:
                continue
            if place.length > SMALL_BYTES_MAX:
                yield from (digests[at] for at in range(place.start, place.end, CHUNK_BYTES))
            else:
                # Small arrays share a chunk with the random generators, which always change.
                yield digest_of(self._buffer.view(place))

    def _write_in_waves(self, staged: StagedState, bytes_max: int) -> PackedChunks:
        """Stage and write complete arrays, as many at a time as the memory allows."""
        chunks: list[Chunk] = []
        new_bytes = 0
        for wave in waves(staged.layout, bytes_max):
            inside = [
                (leaf, place.moved(-wave.start))
                for leaf, place in zip(staged.tree.leaves, staged.layout.places, strict=True)
                if place.length and wave.start <= place.start < wave.end
            ]
            self._buffer.fill(inside, wave.length)
            spans = [
                span.moved(-wave.start)
                for span in staged.layout.chunks
                if wave.start <= span.start < wave.end
            ]
            packed = self._packs.pack(self._buffer, spans, limits=self._limits)
            # The staged bytes are overwritten by the next wave, so second copies cannot wait.
            mirrored = self.mirror(packed.chunks)
            chunks += [replace(chunk, span=chunk.span.moved(wave.start)) for chunk in mirrored]
            new_bytes += packed.new_bytes
        return PackedChunks(chunks=tuple(chunks), new_bytes=new_bytes)
