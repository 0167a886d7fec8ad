"""A campaign, as a worker on another machine is told of it: its pack, its targets in groups, and the rules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import oracles
from fuzz.adapters.pack import Pack, load
from fuzz.adapters.registry import expand
from fuzz.adapters.sanitizer import sanitized
from fuzz.adapters.target import Target
from fuzz.base import __version__
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel
from fuzz.laws.registry import declared
from fuzz.uses.search.turn_runner import Terms


@dataclass(frozen=True)
class Campaign:
    """It is JSON text on its way."""

    pack: str
    """The folder of the pack, '' for the built-in one. It is the same on all machines, or relative to where a worker
    was started."""
    untrusted: bool
    kernels: str
    """The digest of the pack's sources."""
    groups: tuple[tuple[str, ...], ...]
    """The targets by the processes that run them."""
    accuracy: bool
    records: bool
    case_limit: float | None
    longest: float | None

    def terms(self, kernels: tuple[Kernel, ...]) -> Terms:
        """Those of its turns."""
        return Terms(kernels, declared(kernels), self.groups, accuracy=self.accuracy, records=self.records)

    def loaded(self, group: int) -> tuple[Pack, list[Target]]:
        """The pack, and the targets of a group, as they are on this machine. Raises UsageError."""
        found = load(Path(self.pack) if self.pack else None)
        pack = found.distrusted() if self.untrusted else found
        if sources_digest(pack.path, pack.kernels) != self.kernels:
            raise UsageError(f"the pack {self.pack or 'that comes along'} has other sources here")
        every = expand(pack.kernels)
        by_id = {each.id: each for target in every for each in (target, *sanitized(target))}
        missing = [name for name in self.groups[group] if name not in by_id]
        if missing:
            raise UsageError(f"{missing[0]} is no target of this machine: name its processor in --resources")
        return pack, [by_id[name] for name in self.groups[group]]


def sources_digest(folder: Path, kernels: Iterable[Kernel]) -> str:
    """A digest of the files that a pack and its kernels are made of, wherever they are."""
    made_of = {path for kernel in kernels for _, path in kernel.paths if path.is_file()}
    texts = sorted((path.name, path.read_bytes()) for path in {*folder.rglob("*.py"), *made_of})
    return _digest(texts)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """The version of kernelfuzz, and a digest of its sources: two that differ may draw different cases."""
    folders = [Path(__file__).parents[2], Path(str(oracles.__file__)).parent]
    tests = [folder / "tests" for folder in folders]
    paths = sorted(path for folder in folders for path in folder.rglob("*.py") if not set(tests) & {*path.parents})
    return f"{__version__} ({_digest((path.name, path.read_bytes()) for path in paths)})"


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    found = hashlib.blake2b(digest_size=6)
    for name, content in files:
        found.update(name.encode() + b"\0" + hashlib.blake2b(content).digest())
    return found.hexdigest()
