"""What a compiled worker is, in its own words: no target is taken for what it was asked to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fuzz.adapters.isa import ISAS, Value
from fuzz.adapters.target import Attestation
from fuzz.transport.frames import MISREADS


@dataclass(frozen=True)
class CAttestation(Attestation):
    """What a worker observed about its processor, and what its compiler wrote into it."""

    arch: str
    processor: str
    """Its maker and model."""
    features: frozenset[str]
    """The instruction sets that the processor has and the operating system enables."""
    needs: frozenset[str]
    """The instruction sets that the compiler was free to use in the kernel."""
    lacks: frozenset[str]
    """Those that it could not use there: what asks for them takes another way."""
    settings: Mapping[str, Value]
    """What it has of what instruction sets leave open, by the settings' words, read back from the hardware."""
    emulator: str
    """This is 'tcg' under QEMU's translator, 'none', or 'unknown'."""
    compiler: str
    """The compiler of the kernel's own object."""
    flags: str
    page: int
    """The size of a page in bytes."""
    flushes: bool
    """Whether subnormals were flushed to zero when the worker started."""
    misreads: bool
    """Whether a masked load was seen to read the lanes that it leaves out."""
    unloadable: str = ""
    """Why a library that it loads cannot be called; '' where there is none, or it can."""
    loaded: str = ""
    """The name of the library that it loads, and how its digest begins."""

    @classmethod
    def said(cls, hello: str) -> CAttestation:
        """What a worker says of itself when it starts: a line for each field, as `attest.c` writes it."""
        lines = dict(line.split("=", 1) for line in hello.splitlines())
        return cls(
            arch=lines["arch"],
            processor=lines["processor"],
            features=frozenset(lines["features"].split()),
            needs=frozenset(name for name, said in _pairs(lines["needs"]) if said[:1].isdigit()),
            lacks=frozenset(name for name, said in _pairs(lines["needs"]) if said and not said[:1].isdigit()),
            settings={word: int(value) if value.isdigit() else value for word, value in _pairs(lines["settings"])},
            emulator=lines["emulator"],
            compiler=lines["compiler"],
            flags=lines["flags"],
            digest=lines["digest"],
            page=int(lines["page"]),
            flushes=lines["flushes"] == "yes",
            misreads=lines["masked_loads"] == "misread",
            unloadable=lines.get("unloadable", ""),
        )

    @property
    def words(self) -> str:
        rows = (row for row in ISAS.values() if row.arch == self.arch and row.features & self.needs)
        named = {setting.word: setting.trait for row in rows for setting in row.settings}
        return self._words(f"{named[word]} {value}" for word, value in self.settings.items() if word in named)

    @property
    def kind(self) -> str:
        return self._words(())

    def _words(self, settings: Iterable[str]) -> str:
        where = "on hardware" if self.emulator == "none" else "emulated"
        uses = " ".join(sorted(self.needs)) or "baseline instructions"
        code = [self.loaded] if self.loaded else [uses, *settings, self.compiler]
        return ", ".join([f"{self.arch} {where}", *code])

    @property
    def surroundings(self) -> str:
        emulated = "" if self.emulator == "none" else "emulated "
        features = " ".join(sorted(self.features)) or "no vectors"
        settings = (f"{word}={value}" for word, value in self.settings.items())
        return f"{emulated}{self.arch} {self.processor} ({', '.join([features, *settings])}), {self.compiler}"

    @property
    def undecidable(self) -> str:
        return MISREADS if self.misreads else ""


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    """The words `name=value` of a line."""
    for word in line.split():
        name, _, value = word.partition("=")
        yield name, value
