"""Where compiled code is tried: on this processor, under emulators, and as the pack's own rows say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fuzz.adapters.isa import ISAS, Emulator, Settings, architectures
from fuzz.adapters.own_targets import OwnTarget
from fuzz.adapters.toolchain import Host
from fuzz.base.dispatch import SizeLimit

_CASE_LIMIT_S = 5.0
_FEW = 1 << 9
"""The elements of a case where every step of a kernel writes its vectors slowly: long rows show nothing there that they
do not show when optimised."""


@dataclass(frozen=True)
class Place:
    """Where code is tried: architecture, emulator, what is set there, the row of the pack."""

    arch: str
    emulator: Emulator | None = None
    settings: Settings = ()
    own: OwnTarget | None = None
    spills_slowly: bool = False
    """Whether its emulator takes long for what was not optimised."""

    @property
    def name(self) -> str:
        """The place as targets' ids say it."""
        if self.own is not None:
            return self.own.place
        return "native" if self.emulator is None else self.emulator.place

    @property
    def told(self) -> tuple[tuple[str, str], ...]:
        """The settings as targets' ids have them."""
        return tuple((setting.word, str(value)) for setting, value in self.settings)

    @property
    def traits(self) -> tuple[tuple[str, str | int], ...]:
        """What may be said of it when a kernel fails there."""
        own: tuple[tuple[str, str], ...] = () if self.own is None else (("own target", self.own.place),)
        return (
            ("processor", f"{'native' if self.emulator is None else 'emulated'} {self.arch}"),
            *((setting.trait, value) for setting, value in self.settings),
            *own,
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags behind those of the kernel."""
        return () if self.own is None else self.own.flags

    @property
    def case_limit(self) -> float:
        """The limit of a case in seconds."""
        return _CASE_LIMIT_S if self.own is None else self.own.seconds

    def size_limit(self, opt: str) -> SizeLimit | None:
        """What is not on the bare processor or not optimised is slow, and what is both takes several microseconds for
        each row: it is spared the cases of very many."""
        if self.spills_slowly and opt == "O0":
            return SizeLimit(_FEW, _FEW)
        if self.emulator is not None or self.own is not None:
            return SizeLimit(1 << 20, 1 << (17 if opt == "O2" else 15))
        return SizeLimit(1 << 22, 1 << 20, far=True) if opt == "O0" else None


def places(isa: str, beside: Sequence[OwnTarget], host: Host) -> Iterator[Place]:
    """Where code of an instruction set is tried, whether or not it can run there, and beside that."""
    row = ISAS[isa]
    elsewhere = [arch for arch in architectures() if arch != host.arch] if row.emulator is not None else []
    for arch in (row.arch,) if row.arch is not None else (host.arch, *elsewhere):
        native = arch == host.arch
        if native or row.emulator is None:  # what has no emulator says elsewhere why it cannot run
            here = host.settings if native else {}
            plain = Place(arch, settings=tuple((each, here[each.word]) for each in row.settings if each.word in here))
            yield plain
            if native:
                yield from (replace(plain, own=each) for each in beside if not each.remote)
        if row.emulator is not None and (row.emulated_here or not native):
            yield from (Place(arch, row.emulator, each, spills_slowly=row.spills_slowly) for each in row.combinations)
    for each in beside:
        if each.remote and row.arch in (None, each.arch):
            known = tuple((it, each.settings[it.word]) for it in row.settings if it.word in each.settings)
            yield Place(each.arch, settings=known, own=each)
