"""Lint manifests: find the files, read them, run the rules, and make the fixes if asked to.

This is what the command line calls, and what a program can call. Nothing is written here but by
`write_fixes`. What few lints need is imported where they need it, because a lint of one file should
be over at once.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from outlast.manifests.lint.baseline import read_baseline, without_known
from outlast.manifests.lint.collecting import (
    Found,
    collect,
    kustomizations_beside,
    settings_of_pools,
)
from outlast.manifests.lint.configuration import Options
from outlast.manifests.lint.engine import Outcome, run
from outlast.manifests.lint.errors import LintError, NothingLinted
from outlast.manifests.lint.file import File, Format
from outlast.manifests.lint.loading import load, with_patches
from outlast.manifests.lint.pools.model import Capacity, joined
from outlast.manifests.lint.report import Report
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Rule
from outlast.manifests.lint.schemas import schemas_for
from outlast.manifests.lint.selection import chosen, find_rule
from outlast.manifests.lint.source import Source
from outlast.manifests.lint.writing import replace_file
from outlast.manifests.rules import ALL_RULES

# A fix may uncover another; a few rounds settle every case, and a mistake cannot run for ever.
_FIX_ROUNDS_MAX = 10


def lint(
    *paths: str | os.PathLike[str],
    options: Options | None = None,
    read_stdin: Callable[[], bytes] | None = None,
) -> Report:
    """Look at files and folders, and at standard input for `-`.

    Raises `NothingLinted` if there is no object and no node pool in them, and `LintError` for
    a path, an option or a baseline that cannot be used. What is wrong in a file is a finding.
    """
    inputs = gather(paths, options or Options(), read_stdin=read_stdin)
    return examine(inputs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """The bytes to look at. `pools` are looked at for their node pools alone."""

    options: Options
    files: tuple[Found, ...]
    pools: tuple[Found, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedFile:
    """A file before and after fixes."""

    before: Source
    after: str

    @property
    def diff(self) -> str:
        import difflib

        lines = difflib.unified_diff(
            self.before.text.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            fromfile=self.before.name,
            tofile=self.before.name,
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def gather(
    paths: Iterable[str | os.PathLike[str]],
    options: Options,
    *,
    read_stdin: Callable[[], bytes] | None = None,
) -> Inputs:
    """Find and read the files."""
    given = [os.fspath(path) for path in paths]
    files = tuple(collect(given, exclude=options.exclude, read_stdin=read_stdin))
    known = {found.path.resolve() for found in files if found.path is not None}
    pools = tuple(
        found
        for found in collect(options.pools)
        if found.path is None or found.path.resolve() not in known
    )
    return Inputs(options=options, files=files, pools=pools)


def examine(inputs: Inputs) -> Report:
    """Run the rules over what was read."""
    return _examined(inputs)[1]


def examine_and_fix(inputs: Inputs, *, unsafe: bool = False) -> tuple[Report, list[FixedFile]]:
    """The findings that fixes leave, and the files with the fixes made. Nothing is written.

    Done until no fix is left to make, so that doing it again changes nothing.
    """
    from outlast.manifests.lint.fixing import fix_file

    originals: dict[str, Source] = {}
    texts: dict[str, str] = {}
    fixed = 0
    files, report = _examined(inputs)
    for _ in range(_FIX_ROUNDS_MAX):
        made = 0
        for file in files:
            findings = [one for one in report if one.fault.place.source is file.source]
            result = fix_file(file, findings, unsafe=unsafe)
            if result.count:
                made += result.count
                originals.setdefault(file.source.name, file.source)
                texts[file.source.name] = result.text
        if not made:
            break
        fixed += made
        inputs = _with_texts(inputs, originals, texts)
        files, report = _examined(inputs)
    changed = [FixedFile(before=originals[name], after=texts[name]) for name in originals]
    return replace(report, fixed=fixed), changed


def write_fixes(files: Iterable[FixedFile]) -> None:
    """Write the fixed files, each whole or not at all, unless it has changed meanwhile.

    If killed: some files have their fixes and others do not; running it again does the rest.
    """
    for file in files:
        source = file.before
        assert source.path is not None, "standard input cannot be written to"
        replace_file(
            source.path, source.to_bytes(file.after), expected=source.to_bytes(source.text)
        )


def _examined(inputs: Inputs) -> tuple[list[File], Report]:
    options = inputs.options
    loaded = [load(found) for found in inputs.files]
    beside = kustomizations_beside(
        found.path for found in inputs.files if found.path is not None and found.is_named
    )
    files = with_patches(loaded, (load(found) for found in beside))
    pool_files = [_pool_file(found) for found in inputs.pools]
    review = Review(
        _with_windows([*files, *pool_files]),
        schemas=schemas_for(options.kubernetes_version),
        extra=_extra(files, pool_files, options),
    )
    rules = chosen(ALL_RULES, select=options.select, ignore=options.ignore)
    severities = {find_rule(ALL_RULES, word).code: s for word, s in options.severity.items()}
    outcome = run(review, rules, all_rules=ALL_RULES, severities=severities)
    return files, _report(files, review, rules, outcome, options)


def _report(
    files: Sequence[File],
    review: Review,
    rules: tuple[Rule, ...],
    outcome: Outcome,
    options: Options,
) -> Report:
    notices = [file.notice for file in files if file.notice]
    findings = list(outcome.findings)
    if options.baseline is not None:
        findings, gone = without_known(findings, read_baseline(options.baseline))
        if gone:
            notices.append(f"{gone.total()} findings of the baseline no longer occur.")
    objects = len(review.manifests)
    sources = {id(file.source) for file in files}
    pools = sum(id(pool.place.source) in sources for pool in review.pools)
    # What is wrong with a file of --pools does not make up for an empty folder.
    told = any(id(one.fault.place.source) in sources for one in outcome.findings)
    if not objects and not pools and not told:
        raise NothingLinted(
            "Nothing was linted: there is no Kubernetes object and no node pool in what was given.",
            hint=" ".join([*notices, "Check the paths."]),
        )
    return Report(
        findings=tuple(findings),
        rules=rules,
        files=len(files),
        objects=objects,
        pools=pools,
        ignored=outcome.ignored,
        known=len(outcome.findings) - len(findings),
        notices=tuple(notices),
    )


def _pool_file(found: Found) -> File:
    file = load(found)
    is_known = file.capacity.pools or file.capacity.is_autopilot is not None
    if found.is_named and not is_known and file.format is not Format.TERRAFORM:
        raise LintError(
            f"No node pool was found in {found.name!r}.",
            hint="Give a gcloud script, a Terraform file, or the JSON of `gcloud container "
            "node-pools list` or `kubectl get nodes`.",
        )
    return replace(file, manifests=())


def _with_windows(files: Sequence[File]) -> list[File]:
    """The files, with their pools knowing what the kubelet settings that a script names say."""
    if not any(pool.config_file for file in files for pool in file.capacity.pools):
        return list(files)
    from outlast.manifests.lint.pools.kubelet import config_paths, with_windows

    documents = {file.source.path: file.documents for file in files if file.source.path}
    named = {path for file in files for path in config_paths(file.capacity)}
    for found in settings_of_pools(named - documents.keys()):
        if found.path is not None:
            documents[found.path] = load(found).documents
    return [replace(file, capacity=with_windows(file.capacity, documents)) for file in files]


def _extra(files: Sequence[File], pool_files: Sequence[File], options: Options) -> Capacity:
    """What is known of the nodes beyond single files."""
    terraform = [file.source for file in (*files, *pool_files) if file.format is Format.TERRAFORM]
    told = Capacity(is_autopilot=options.is_autopilot)
    if not terraform:
        return told
    from outlast.manifests.lint.pools.terraform import read_terraform

    return joined([read_terraform(terraform), told])


def _with_texts(inputs: Inputs, sources: dict[str, Source], texts: dict[str, str]) -> Inputs:
    def renewed(found: Found) -> Found:
        if found.name not in texts:
            return found
        return replace(found, data=sources[found.name].to_bytes(texts[found.name]))

    return replace(inputs, files=tuple(renewed(found) for found in inputs.files))
