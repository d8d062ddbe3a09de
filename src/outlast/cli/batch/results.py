"""`outlast results URL`: count the results in a sink, or export them to a file."""

import json
from contextlib import closing
from pathlib import Path

from outlast.cli.places import refuse_missing_sink
from outlast.cli.printing import Format, say
from outlast.results.export import export as export_results
from outlast.results.opening import open_sink


def results(url: str, /, *, export: Path | None = None, format: Format = Format.TEXT) -> int:
    """Count the results in a sink, or export them to a file.

    Parameters
    ----------
    url: str
        The sink: sqlite:///jobs.db, postgresql://..., a bucket or a folder.
    export: Path
        Write all results to this .jsonl or .parquet file, one row with key and result each.
    format: Format
        Output format.
    """
    refuse_missing_sink(url)
    with closing(open_sink(url)) as sink:
        if export is None:
            count = sink.count()
            say(json.dumps({"url": sink.url, "count": count}) if format is Format.JSON else count)
            return 0
        count = export_results(sink, export)
    written = {"file": str(export), "count": count}
    say(json.dumps(written) if format is Format.JSON else f"Wrote {count:,} results to {export}.")
    return 0
