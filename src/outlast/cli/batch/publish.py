"""`outlast publish URL FILES...`: publish items to a queue, all of them or, if one is bad, none."""

import sys
from contextlib import ExitStack, closing
from typing import Annotated

from cyclopts import Parameter

from outlast._base.terminal import escaped
from outlast.cli.printing import Format, progress, say, say_json
from outlast.errors import OutlastError
from outlast.publishing.publish import InvalidItems, PublishListener, PublishSummary
from outlast.publishing.publish import publish as publish_items
from outlast.publishing.sources import STDIN, SourceWarning
from outlast.queue.opening import open_queue
from outlast.queue.protocol import Queue


def publish(
    url: str,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    key: str | None = None,
    format: Format = Format.TEXT,
) -> int:
    """Publish items to a queue. Running it again adds only items that are new.

    Parameters
    ----------
    url: str
        The queue, such as sqlite:///jobs.db.
    files: str
        JSONL or CSV files, folders whose files are the items, or - for JSONL on standard input.
    key: str
        The field with the key of each item. Default: a hash of its content, or a file's path.
    format: Format
        Output format.
    """
    _check_files(files)
    with closing(open_queue(url)) as queue:
        with _PrintingListener(queue) as listener:
            try:
                summary = publish_items(queue, *files, key=key, listener=listener)
            except InvalidItems as error:
                listener.close()
                _print_rejected(error)
                raise
        _print_summary(queue, summary, format)
    return 0


def _check_files(files: tuple[str, ...]) -> None:
    if not files:
        raise OutlastError(
            "Nothing to publish.",
            hint="Name JSONL or CSV files or folders, or - for standard input: "
            "outlast publish URL rows.jsonl",
        )
    for file in files:
        if file.startswith("-") and file != STDIN:
            raise OutlastError(
                f"Unknown option: {file}.",
                hint="See `outlast publish --help`. For a file with such a name, use ./-name",
            )


class _PrintingListener(PublishListener):
    """Shows progress bars, and prints problems to stderr."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._bar = ExitStack()
        self._advance = self._bar.enter_context(progress("reading", total=None))
        self._is_reading = True

    def __enter__(self) -> "_PrintingListener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._bar.close()

    def on_read(self, count: int) -> None:
        self._advance(count)

    def on_warning(self, warning: SourceWarning) -> None:
        where = escaped(warning.where, keep="")
        say(f"warning: {where}: {warning.reason}", file=sys.stderr)

    def on_published(self, count: int, total: int) -> None:
        if self._is_reading:
            self._bar.close()
            self._advance = self._bar.enter_context(progress("publishing", total=total))
            self._is_reading = False
        self._advance(count)

    def on_partial(self, published: int, total: int) -> None:
        self._bar.close()
        again = "Run the command again to add the rest."
        if not self._queue.guarantees.dedupes_keys:
            again = "This queue does not recognize known keys, so publishing again repeats them."
        say(
            f"{published:,} of {total:,} items were published before an error. {again}",
            file=sys.stderr,
        )


def _print_rejected(error: InvalidItems) -> None:
    for one in error.rejected:
        say(f"{escaped(one.where, keep='')}: {escaped(one.reason, keep='')}", file=sys.stderr)
    if error.count > len(error.rejected):
        say(f"... and {error.count - len(error.rejected):,} more", file=sys.stderr)


def _print_summary(queue: Queue, summary: PublishSummary, format: Format) -> None:
    if format is Format.JSON:
        say_json({"url": queue.url, **summary._asdict()})
        return
    repeated = f" {summary.repeated:,} occurred more than once." if summary.repeated else ""
    items = "item" if summary.added == 1 else "items"
    say(f"Published {summary.added:,} {items}; {summary.known:,} were already known.{repeated}")
    if not queue.guarantees.dedupes_keys:
        say(
            f"note: {queue.url} does not recognize known keys, so publishing again adds every item "
            "again. To prevent that, add a ledger: &ledger=gs://bucket/folder",
            file=sys.stderr,
        )
