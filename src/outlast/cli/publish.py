"""`outlast publish URL FILES...`: put items into a queue, all of them or, if one is bad, none.

Everything is read and checked before the first item is written. If killed while writing: a part is
published, and running it again adds the rest.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from outlast.cli.format import Format
from outlast.cli.sources import STDIN, Bad, read_items
from outlast.cli.spool import Spool
from outlast.errors import OutlastError
from outlast.queue.items import Published
from outlast.queue.opening import open_queue
from outlast.queue.protocol import Queue

_BATCH_ITEMS = 10_000
_BATCH_CHARACTERS = 16_000_000
_ADVANCE_ITEMS = 1000
_TOLD_MAX = 10


class InputRefused(OutlastError, ValueError):
    """Some of the lines cannot be published, so none was."""


def publish(
    url: str,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    key: str | None = None,
    format: Format = Format.TEXT,
) -> int:
    """Publish items into a queue. Running it again adds nothing twice.

    Parameters
    ----------
    url: str
        The queue, such as sqlite:///jobs.db.
    files: str
        JSONL or CSV files, folders whose files are the items, or - for JSONL on standard input.
    key: str
        The field that holds an item's key. Default: a hash of its content, or a file's path.
    format: Format
        text for people, json for programs.
    """
    if not files:
        raise OutlastError("There is nothing to publish.", hint="Name files, folders, or - .")
    for file in files:
        if file.startswith("-") and file != STDIN:
            raise OutlastError(
                f"Unknown option: {file}.",
                hint="See `outlast publish --help`. A file of such a name: ./-name",
            )
    with closing(Spool()) as spool, closing(open_queue(url)) as queue:
        _read_all(spool, files, key)
        published = _write_all(queue, spool)
        _tell(queue, published, spool.repeated, format)
    return 0


def _read_all(spool: Spool, files: tuple[str, ...], key: str | None) -> None:
    bad: list[Bad] = []
    bad_count = 0
    with _progress("reading", total=None) as advance:
        for number, found in enumerate(read_items(files, key), start=1):
            problem = found if isinstance(found, Bad) else spool.add(found)
            if problem is not None:
                bad_count += 1
                bad += [problem][: _TOLD_MAX - len(bad)]
            if number % _ADVANCE_ITEMS == 0:
                advance(_ADVANCE_ITEMS)
    if not bad_count:
        return
    for one in bad:
        print(f"{one.where}: {one.what}", file=sys.stderr)
    if bad_count > len(bad):
        print(f"... and {bad_count - len(bad):,} more", file=sys.stderr)
    raise InputRefused(
        f"{bad_count:,} of {bad_count + len(spool) + spool.repeated:,} items cannot be published, "
        "so none was.",
        hint="Mend the places named above and run this again.",
    )


def _write_all(queue: Queue, spool: Spool) -> Published:
    added = known = 0
    with _progress("publishing", total=len(spool)) as advance:
        # In batches, because workers wait while one is written.
        for batch in spool.batches(items_max=_BATCH_ITEMS, characters_max=_BATCH_CHARACTERS):
            published = queue.publish(batch)
            added += published.added
            known += published.known
            advance(len(batch))
    return Published(added=added, known=known)


def _tell(queue: Queue, published: Published, repeated: int, format: Format) -> None:
    if format is Format.JSON:
        print(json.dumps({"url": queue.url, **published._asdict(), "repeated": repeated}))
        return
    again = f" {repeated:,} came more than once." if repeated else ""
    print(f"Published {published.added:,} items, {published.known:,} were known.{again}")
    if not queue.promises.dedupes_keys:
        print(
            f"note: {queue.url} does not know keys: publishing again would add all of it again.",
            file=sys.stderr,
        )


@contextmanager
def _progress(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """A bar where a person watches."""
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
