"""`outlast results URL`: how many results there are, and all of them in one file."""

import json
from contextlib import closing
from pathlib import Path

from outlast.cli.format import Format
from outlast.cli.places import refuse_missing
from outlast.results.errors import SinkUrlError
from outlast.results.export import export as export_results
from outlast.results.opening import open_sink


def results(
    url: str,
    /,
    *,
    export: Path | None = None,
    format: Format = Format.TEXT,
) -> int:
    """Count the results in a sink, or write them into a file.

    Parameters
    ----------
    url: str
        The sink: sqlite:///jobs.db, postgresql://..., a bucket or a folder.
    export: Path
        Write every result as a row with key and result, into a .jsonl or .parquet file.
    format: Format
        text for people, json for programs.
    """
    refuse_missing(url, refused=SinkUrlError)
    with closing(open_sink(url)) as sink:
        if export is None:
            count = sink.count()
            print(json.dumps({"url": sink.url, "count": count}) if format is Format.JSON else count)
            return 0
        count = export_results(sink, export)
    told = {"file": str(export), "count": count}
    print(json.dumps(told) if format is Format.JSON else f"Wrote {count:,} results to {export}.")
    return 0
