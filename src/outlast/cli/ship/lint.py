"""`outlast lint PATHS...`: check manifests, and fix what can be fixed."""

import os
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast._base.garbage_collection import no_garbage_collection
from outlast._redact import redact_excerpt
from outlast.cli.option_types import Texts
from outlast.cli.printing import say, write_document
from outlast.manifests.lint.engine.baseline import baseline_text
from outlast.manifests.lint.engine.configuration import (
    LintOptions,
    fail_on_of,
    find_options,
    read_options,
)
from outlast.manifests.lint.engine.files import STDIN, replace_file
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.reports import ReportFormat, write_report
from outlast.manifests.linting import examine, examine_and_fix, gather, write_fixes

# A single hyphen is standard input; everything else that starts with one is rejected below.
Paths = Annotated[str, Parameter(allow_leading_hyphen=True)]


class FailOn(StrEnum):
    """The lowest severity that makes the lint fail."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LintFlags:
    """What to check, and what to do with the findings."""

    pools: Texts = ()
    """File with node pools: gcloud script, Terraform, JSON of gcloud or kubectl, workload file."""
    format: ReportFormat = ReportFormat.TEXT
    """Output format of the findings."""
    fix: bool = False
    """Apply the safe fixes and keep comments and layout. Skips symlinks unless named."""
    diff: bool = False
    """Print what --fix would change, without changing anything."""
    unsafe_fixes: bool = False
    """Also apply fixes that can change how a workload behaves."""
    select: Texts = ()
    """Run only these rules: codes, prefixes of codes (OL1) or names, separated by commas."""
    ignore: Texts = ()
    """Skip these rules."""
    fail_on: FailOn | None = None
    """Exit with 1 if a finding has at least this severity. Default: warning."""
    baseline: Path | None = None
    """Report only findings that are not in this file."""
    write_baseline: bool = False
    """Write the findings to the --baseline file and report none."""
    kubernetes_version: str | None = None
    """Check objects against the schemas of this version, such as 1.33. Default: the newest."""
    autopilot: bool = False
    """The cluster is an Autopilot cluster."""
    config: Path | None = None
    """File with options. Default: the nearest outlast.toml or pyproject.toml."""


_DEFAULTS = LintFlags()


def lint(*paths: Paths, flags: LintFlags = _DEFAULTS) -> int:
    """Check manifests for problems on Spot and flex-start nodes.

    Exits with 0 if no finding is at or above --fail-on, 1 if there are such findings, and 2 if
    linting was not possible. Supports Lists, multi-document files, JSON and Kustomize, and
    Helm charts if `helm` is installed.

    Parameters
    ----------
    paths: str
        Files and folders, or - for standard input. Scripts and Terraform are read for node pools.
    """
    options = _options(flags)
    _check(paths, flags, options)
    # There are no cycles, and looking for them takes a fifth of the time.
    with no_garbage_collection():
        if flags.write_baseline:
            return _write_baseline(paths, options)
        if flags.diff:
            return _print_diff(paths, options, unsafe=flags.unsafe_fixes)
        if not flags.fix:
            return _finish(examine(gather(paths, options)), options, flags.format)
        report, files = examine_and_fix(gather(paths, options), unsafe=flags.unsafe_fixes)
        write_fixes(files)
        return _finish(report, options, flags.format)


def _print_diff(paths: tuple[str, ...], options: LintOptions, *, unsafe: bool) -> int:
    report, files = examine_and_fix(gather(paths, options), unsafe=unsafe)
    for file in files:
        write_document(redact_excerpt(file.diff, file.before.text, file.after))
    say(f"{len(files)} {'file' if len(files) == 1 else 'files'} would change.", file=sys.stderr)
    return 1 if report.fails(options.fail_on) or files else 0


def _finish(report: LintReport, options: LintOptions, format: ReportFormat) -> int:
    from outlast.manifests.lint.reports.text import summary

    text = write_report(report, format, color=_has_color())
    if format is ReportFormat.TEXT:
        # It has escaped what it quotes, and has its own colors.
        sys.stdout.write(text)
    else:
        say(text, end="")
    for notice in report.notices:
        say(f"notice: {notice}", file=sys.stderr)
    if format is ReportFormat.TEXT:
        say(summary(report), file=sys.stderr)
    return 1 if report.fails(options.fail_on) else 0


def _options(flags: LintFlags) -> LintOptions:
    """The options of the command line, with those of the file as defaults."""
    config = flags.config
    base = read_options(_existing(config)) if config else find_options(Path.cwd())
    base = base or LintOptions()
    return replace(
        base,
        select=flags.select or base.select,
        ignore=(*base.ignore, *flags.ignore),
        pools=(*base.pools, *flags.pools),
        fail_on=fail_on_of(flags.fail_on) if flags.fail_on else base.fail_on,
        baseline=flags.baseline or base.baseline,
        kubernetes_version=flags.kubernetes_version or base.kubernetes_version,
        is_autopilot=flags.autopilot or base.is_autopilot,
    )


def _check(paths: tuple[str, ...], flags: LintFlags, options: LintOptions) -> None:
    """Refuse combinations that cannot work."""
    edits = flags.fix or flags.diff
    unknown = next((path for path in paths if path.startswith("-") and path != STDIN), None)
    for is_wrong, what, hint in (
        (not paths, "No path was given.", "Pass files or folders, or - for standard input."),
        (unknown, f"Unknown option: {unknown}.", "See `outlast lint --help`."),
        (
            flags.fix and flags.diff,
            "--fix and --diff cannot be combined.",
            "Use --diff to preview.",
        ),
        (
            flags.unsafe_fixes and not edits,
            "--unsafe-fixes requires --fix or --diff.",
            "Use --diff to preview.",
        ),
        (
            flags.fix and STDIN in paths,
            "Standard input cannot be fixed in place.",
            "Use --diff instead.",
        ),
        (
            flags.write_baseline and options.baseline is None,
            "--write-baseline requires --baseline FILE.",
            "Pass the file to write.",
        ),
        (
            flags.write_baseline and edits,
            "--write-baseline cannot be combined with --fix or --diff.",
            "Fix first.",
        ),
    ):
        if is_wrong:
            raise LintError(what, hint=hint)


def _write_baseline(paths: tuple[str, ...], options: LintOptions) -> int:
    assert options.baseline is not None
    report = examine(gather(paths, replace(options, baseline=None)))
    replace_file(options.baseline, baseline_text(report).encode())
    say(f"Wrote {len(report)} findings to {options.baseline}.", file=sys.stderr)
    return 0


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise LintError(f"There is no file {str(path)!r}.", hint="Check --config.")
    return path


def _has_color() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain
