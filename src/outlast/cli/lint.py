"""`outlast lint PATHS...`: review manifests, and mend what can be mended."""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast.manifests.lint.baseline import baseline_text
from outlast.manifests.lint.collecting import STDIN
from outlast.manifests.lint.configuration import Options, fail_on_of, find_options, read_options
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.report import Report
from outlast.manifests.lint.reports import ReportFormat, write_report
from outlast.manifests.lint.writing import replace_file
from outlast.manifests.linting import examine, examine_and_fix, gather, write_fixes

# A lone hyphen is standard input; what else starts with one is refused below.
Paths = Annotated[str, Parameter(allow_leading_hyphen=True)]
Words = Annotated[tuple[str, ...], Parameter(negative_iterable=(), show_default=False)]


class FailOn(StrEnum):
    """The severity from which a lint fails."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


def lint(
    *paths: Paths,
    pools: Words = (),
    format: ReportFormat = ReportFormat.TEXT,
    fix: bool = False,
    diff: bool = False,
    unsafe_fixes: bool = False,
    select: Words = (),
    ignore: Words = (),
    fail_on: FailOn | None = None,
    baseline: Path | None = None,
    write_baseline: bool = False,
    kubernetes_version: str | None = None,
    autopilot: bool = False,
    config: Path | None = None,
) -> int:
    """Review manifests for what goes wrong on Spot and flex-start nodes.

    Exits with 0 if there is nothing at or above --fail-on, with 1 if there is, with 2 if the lint
    could not run. Objects, Lists, several documents in a file, JSON and Kustomize patches are
    understood; Helm templates are skipped with a notice.

    Parameters
    ----------
    paths: str
        Files and folders; - for standard input. Scripts and Terraform files that create node pools
        are read for them.
    pools: tuple[str, ...]
        A file that describes node pools: a script with gcloud commands, Terraform, the JSON of
        `gcloud container node-pools list` or `kubectl get nodes`, or a workload file.
    format: ReportFormat
        How to print the findings.
    fix: bool
        Make the safe fixes in the files. Comments and layout stay.
    diff: bool
        Print what --fix would do, and change nothing.
    unsafe_fixes: bool
        Make the fixes too that can change how a workload behaves.
    select: tuple[str, ...]
        Only these rules: codes, their beginnings (OL1) or names, separated by commas.
    ignore: tuple[str, ...]
        Not these rules.
    fail_on: FailOn
        Exit with 1 from this severity on. Default: warning.
    baseline: Path
        Report only what this file does not hold.
    write_baseline: bool
        Write the findings to the file of --baseline, and report none.
    kubernetes_version: str
        Hold objects against the schemas of this version, such as 1.33. Default: the newest known.
    autopilot: bool
        The cluster is an Autopilot one.
    config: Path
        The file of options. Default: the nearest outlast.toml or pyproject.toml.
    """
    options = _options(
        read_options(_existing(config)) if config else find_options(Path.cwd()),
        pools=pools,
        select=select,
        ignore=ignore,
        fail_on=fail_on,
        baseline=baseline,
        kubernetes_version=kubernetes_version,
        autopilot=autopilot,
    )
    _check(paths, options, fix=fix, diff=diff, unsafe=unsafe_fixes, writes=write_baseline)
    with _without_collector():
        if write_baseline:
            return _write_baseline(paths, options)
        if diff:
            return _print_diff(paths, options, unsafe=unsafe_fixes)
        inputs = gather(paths, options)
        if not fix:
            return _finish(examine(inputs), options, format)
        report, files = examine_and_fix(inputs, unsafe=unsafe_fixes)
        write_fixes(files)
        return _finish(report, options, format)


def _print_diff(paths: tuple[str, ...], options: Options, *, unsafe: bool) -> int:
    report, files = examine_and_fix(gather(paths, options), unsafe=unsafe)
    for file in files:
        print(file.diff, end="")
    print(f"{len(files)} files would change.", file=sys.stderr)
    return 1 if report.fails(options.fail_on) or files else 0


def _finish(report: Report, options: Options, format: ReportFormat) -> int:
    from outlast.manifests.lint.reports.text import summary

    print(write_report(report, format, colour=_has_colour()), end="")
    for notice in report.notices:
        print(f"notice: {notice}", file=sys.stderr)
    if format is ReportFormat.TEXT:
        print(summary(report), file=sys.stderr)
    return 1 if report.fails(options.fail_on) else 0


def _options(
    base: Options | None,
    *,
    pools: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: FailOn | None,
    baseline: Path | None,
    kubernetes_version: str | None,
    autopilot: bool,
) -> Options:
    """What the command line says, and else what the file says."""
    base = base or Options()
    return Options(
        select=select or base.select,
        ignore=(*base.ignore, *ignore),
        exclude=base.exclude,
        pools=(*base.pools, *pools),
        severity=base.severity,
        fail_on=fail_on_of(fail_on) if fail_on else base.fail_on,
        baseline=baseline or base.baseline,
        kubernetes_version=kubernetes_version or base.kubernetes_version,
        is_autopilot=True if autopilot else base.is_autopilot,
    )


def _check(
    paths: tuple[str, ...], options: Options, *, fix: bool, diff: bool, unsafe: bool, writes: bool
) -> None:
    if not paths:
        raise LintError("No path was given.", hint="Name files or folders, or - for stdin.")
    for path in paths:
        if path.startswith("-") and path != STDIN:
            raise LintError(f"Unknown option: {path}.", hint="See `outlast lint --help`.")
    if fix and diff:
        raise LintError("--fix and --diff exclude each other.", hint="Take --diff to look first.")
    if unsafe and not (fix or diff):
        raise LintError("--unsafe-fixes needs --fix or --diff.", hint="Take --diff to look first.")
    if fix and STDIN in paths:
        raise LintError("Standard input cannot be fixed in place.", hint="Take --diff instead.")
    if writes and options.baseline is None:
        raise LintError("--write-baseline needs --baseline FILE.", hint="Name the file to write.")
    if writes and (fix or diff):
        raise LintError("--write-baseline goes without --fix and --diff.", hint="Fix first.")


def _write_baseline(paths: tuple[str, ...], options: Options) -> int:
    from dataclasses import replace

    assert options.baseline is not None
    report = examine(gather(paths, replace(options, baseline=None)))
    replace_file(options.baseline, baseline_text(report).encode())
    print(f"Wrote {len(report)} findings to {options.baseline}.", file=sys.stderr)
    return 0


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise LintError(f"There is no file {str(path)!r}.", hint="Check --config.")
    return path


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Python's search for cycles finds none in thousands of documents, and takes a fifth of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _has_colour() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain
