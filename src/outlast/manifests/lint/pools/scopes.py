"""Which cluster the objects of a folder run in, if the files describe several.

What a folder says about a cluster applies to objects in it and below, and to a project whose
infrastructure it contains: `terraform/` next to `manifests/`. It does not apply to other projects
in the same repository. Facts from the command line apply everywhere.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast.manifests.lint.pools.model import ClusterCapacity, joined

_INFRASTRUCTURE = frozenset(
    (
        "bin",
        "cluster",
        "clusters",
        "gcloud",
        "gke",
        "hack",
        "iac",
        "infra",
        "infrastructure",
        "platform",
        "provisioning",
        "scripts",
        "setup",
        "terraform",
        "tf",
        "tools",
    )
)


@dataclass(frozen=True, kw_only=True)
class ClusterScope:
    """The capacity that applies to some folders. `folders` are those that describe it."""

    capacity: ClusterCapacity
    folders: tuple[Path, ...] = ()


class ClusterScopes:
    """What each folder says about its cluster. `everywhere` applies to all of them."""

    def __init__(
        self, by_folder: Mapping[Path, ClusterCapacity], everywhere: ClusterCapacity
    ) -> None:
        self._by_folder = {
            folder: capacity
            for folder, capacity in by_folder.items()
            if capacity != ClusterCapacity()
        }
        self._everywhere = everywhere
        self._found: dict[tuple[Path, ...], ClusterScope] = {}
        self._near: dict[Path, tuple[Path, ...]] = {}

    def of(self, folder: Path) -> ClusterScope:
        """The scope of the objects in a folder."""
        if folder not in self._near:
            self._near[folder] = self._nearest(folder)
        return self._scope(self._near[folder])

    @property
    def unused(self) -> list[ClusterScope]:
        """The folders that describe a cluster in which no object runs."""
        used = {folder for folders in self._near.values() for folder in folders}
        return [self._scope((folder,)) for folder in self._by_folder if folder not in used]

    def notices(self) -> list[str]:
        """What was assumed: an object neither above nor below the folder of its cluster."""
        assumed: dict[tuple[Path, ...], list[Path]] = {}
        without: list[Path] = []
        for folder, near in self._near.items():
            if any(not (folder.is_relative_to(one) or one.is_relative_to(folder)) for one in near):
                assumed.setdefault(near, []).append(folder)
            elif not near and self._by_folder:
                without.append(folder)
        found = [
            f"Assumed that {_listed(folders)} runs in the cluster described in {_listed(near)}."
            for near, folders in assumed.items()
        ]
        if without:
            found.append(
                f"No node pools were assumed for {_listed(without)}: the clusters described in "
                f"{_listed(sorted(self._by_folder))} belong to other folders. Pass --pools to name "
                "theirs."
            )
        return found

    def _scope(self, folders: tuple[Path, ...]) -> ClusterScope:
        if folders not in self._found:
            parts = [self._by_folder[folder] for folder in folders]
            capacity = joined([*parts, self._everywhere]) if parts else self._everywhere
            self._found[folders] = ClusterScope(capacity=capacity, folders=folders)
        return self._found[folders]

    def _nearest(self, folder: Path) -> tuple[Path, ...]:
        depths: dict[Path, int] = {}
        for known in self._by_folder:
            shared = Path(os.path.commonpath((known, folder)))
            if _INFRASTRUCTURE.issuperset(part.lower() for part in known.relative_to(shared).parts):
                depths[known] = len(shared.parts)
        deepest = max(depths.values(), default=0)
        return tuple(sorted(known for known, depth in depths.items() if depth == deepest))


def _listed(folders: Iterable[Path]) -> str:
    names = [repr(_shown(folder)) for folder in folders]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _shown(folder: Path) -> str:
    here = Path.cwd()
    return folder.relative_to(here).as_posix() if folder.is_relative_to(here) else str(folder)
