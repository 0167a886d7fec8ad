"""Targets and adapters: where and how a kernel runs, as one row, and what is done with kernels of one kind."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fuzz.core.adapters import isa
from fuzz.core.adapters.isa import Emulator, Settings
from fuzz.core.adapters.toolchain import Host, Tool, this_host
from fuzz.core.base.dispatch import SizeLimit
from fuzz.core.base.errors import InternalError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.platform import Platform
from fuzz.core.base.platforms import platform_of
from fuzz.core.base.text import printable
from fuzz.core.transport.ending import EndedError
from fuzz.core.transport.steps import Steps
from oracles.formula.contract import Contract
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.core.adapters.build import Builder
    from fuzz.core.adapters.export import Script
    from fuzz.core.adapters.sites import OwnTarget
    from fuzz.core.transport.process import Process
    from fuzz.core.transport.sandbox import Sandbox


@dataclass(frozen=True)
class Bystander:
    """A program without the kernel: if it does not start either, the kernel is not to blame."""

    process: Process
    place: str
    """The program that starts it, such as 'qemu'."""
    command: Sequence[str]

    def hindrance(self) -> Steps[str]:
        """Return why it does not start, in one line; '' where it does. Its process has ended then."""
        try:
            yield from self.process.hello()
        except EndedError as error:
            ending, what = error.ending, shlex.join(self.command)
            nothing = f"it is not ready after {self.process.start_limit:g} s" if ending.hung else str(ending)
            first = next(iter(ending.said.splitlines()), "") or nothing
            return f"{self.place} starts no worker: {first} (to see it: {what})"
        finally:
            self.process.close()
        return ""


@dataclass(frozen=True)
class TargetId:
    """Which kernel runs where, and how it was built: `c-sve@qemu:vl=256,gcc-O0`, `triton-persistent@interpret`."""

    kind: str
    """The kind of the kernel: the name of its adapter."""
    kernel: str
    place: str
    """'native', an emulator, 'interpret' or a device."""
    settings: tuple[tuple[str, str], ...] = ()
    """The settings of the site, such as ("vl", "256")."""
    compiler: str = ""
    opt: str = ""

    @classmethod
    @lru_cache(maxsize=4096)
    def parse(cls, text: str) -> TargetId:
        """Return the id that `str` wrote. Other text is read as far as it goes: case files may hold anything."""
        head, _, where = text.partition("@")
        kind, dash, kernel = head.partition("-")
        place, _, details = where.partition(":")
        parts = [part for part in details.split(",") if part]
        settings = [part.partition("=")[::2] for part in parts if "=" in part]
        compiler, _, opt = next((part for part in parts if "=" not in part), "").partition("-")
        return cls(kind if dash else "", kernel if dash else head, place, tuple(settings), compiler, opt)

    def __str__(self) -> str:
        return f"{self.implementation}@{self.where}"

    @property
    def implementation(self) -> str:
        """The kernel with its kind, wherever it runs: `c-sve`."""
        return f"{self.kind}-{self.kernel}" if self.kind else self.kernel

    @property
    def where(self) -> str:
        """The id without the kernel: `qemu:vl=256,gcc-O0`."""
        details = [*self.set_there, *([f"{self.compiler}-{self.opt}"] if self.compiler else [])]
        return f"{self.place}:{','.join(details)}" if details else self.place

    @property
    def set_there(self) -> tuple[str, ...]:
        """The settings as they are printed: `vl=256`."""
        return tuple(f"{name}={value}" for name, value in self.settings)


@dataclass(frozen=True)
class Target:
    """Where and how a kernel runs: one row, the same for kernels of every kind. Its adapter acts on it."""

    name: TargetId
    kernel: Kernel
    adapter: Adapter = field(repr=False)
    traits: tuple[tuple[str, str | int], ...]
    """Its properties, in the words in which a rule of failing is stated."""
    case_limit: float
    """The limit of a case in seconds: long enough for a busy machine, and an end for endless loops."""
    size_limit: SizeLimit | None = None
    """The largest case that a search dispatches to it."""
    slow: bool = False
    """Whether a case takes it hundreds of times as long as other targets, so that a search gives it fewer."""
    costly: bool = False
    """Whether a case takes it milliseconds, and not microseconds: explaining a failure probes it sparingly."""
    batched: bool = False
    """Whether cases of one frame are launched together, so that a death does not tell which of them caused it.
    Otherwise every case is answered before the next one starts: silence names the culprit."""
    specialised: bool = False
    """Whether a program is compiled for it for each length, dtype and alignment that it is called with: a case then
    takes it seconds, and further ones of the same program next to nothing."""
    shares: bool = False
    """Whether its workers take over one another's processes, each of which takes hundreds of megabytes of a device."""
    sanitizable: bool = False
    """Whether tools that watch device memory are of use to it."""
    sanitizer: str = ""
    """The tool that watches it."""
    arch: str = ""
    """The architecture that the code is compiled for. This and what follows are for code that is compiled ahead."""
    emulator: Emulator | None = None
    """The emulator that it runs under; None on a real processor."""
    own: OwnTarget | None = None
    """Its row in the pack's `targets.toml`, if it comes from there."""
    settings: Settings = ()
    """Its values of what its instruction set leaves open."""
    flags: tuple[str, ...] = ()
    """The compiler flags of the kernel's object."""
    host: Host | None = None
    """The machine that compiles it and starts its workers."""

    @cached_property
    def id(self) -> str:
        """Its name as text, such as `c-sve@qemu:vl=256,gcc-O0`; unique among the targets of one host."""
        return str(self.name)

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown trait, which would be taken for a condition on the case."""
        unknown = [name for name, _ in self.traits if name not in causes_by_trait()]
        if unknown:
            raise ValueError(f"{self.id}: nobody knows what the trait {unknown[0]!r} of a target is about")

    @property
    def _width(self) -> int | None:
        """The width of its vectors in bits, where that is a setting."""
        return next((int(value) for setting, value in self.settings if setting.is_width), None)

    @property
    def lanes(self) -> int | None:
        """The number of float32 lanes of its vectors, where their width is a setting."""
        return None if self._width is None else self._width // LANE_BITS

    @cached_property
    def contract(self) -> Contract:
        """The kernel's contract where it runs."""
        return self.meant(self.kernel.contract)

    def meant(self, contract: Contract) -> Contract:
        """Return the contract with what its platform documents, at the width of its vectors."""
        kernel = self.kernel
        found = self.platform.completed(contract, OPS[kernel.op], kernel.able.dtypes, asks_tf32=kernel.asks_tf32)
        return found.at(self._width)

    @property
    def platform(self) -> Platform:
        """What is documented of its arithmetic."""
        return platform_of(self.kernel.arithmetic, self.name.place)

    @property
    def emulated(self) -> bool:
        """Whether a program stands in for the processor."""
        return self.emulator is not None

    @property
    def remote(self) -> bool:
        """Whether it is on another machine, to which its worker is sent."""
        return self.own is not None and self.own.remote

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is on a machine with another processor."""
        return self.host is not None and self.host.arch != this_host().arch

    def unavailable(self) -> str | None:
        """Return why this target cannot run here and how to get it, or None when it can."""
        missing = self.kernel.unfetched or self.adapter.unavailable(self)
        if missing is not None or not self.kernel.untrusted:
            return missing
        from fuzz.core.transport.sandbox import unusable

        return unusable()


LANE_BITS = 32
"""The size of a lane in bits: kernels compute in float32, whatever they store."""


def lane_counts() -> frozenset[int]:
    """Return the numbers of lanes that targets have by their settings."""
    widths = (int(value) for setting in isa.settings() if setting.is_width for value in setting.options)
    return frozenset(width // LANE_BITS for width in widths)


def causes_by_trait() -> Mapping[str, str]:
    """Return the cause of a failure that depends on a trait of a target, by trait; other traits are of cases."""
    return {
        "optimisation": "compiler and flags",
        "compiler": "compiler and flags",
        "processor": "the processor, real or emulated",
        "device": "the device",
        "own target": "a target of the pack's own",
        "sanitizer": "the tool that watches it",
        **{setting.trait: setting.trait for setting in isa.settings()},
    }


class AttestationError(InternalError):
    """A worker that is not what its target asked for: nothing it computes may be judged. An internal error."""


class Unavailable(Exception):  # noqa: N818 (a state of the machine, not a mistake)
    """A worker that finds, once started, that its target cannot run here. The message says why."""


@dataclass(frozen=True)
class Attestation:
    """What a worker observed about itself when it started; each kind of kernel adds its own facts."""

    digest: str
    """The digest of the code that it runs, which must be what was built."""

    @property
    def words(self) -> str:
        """One line for people."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """Its words without what similar targets differ in, such as vector lengths."""
        return self.words

    @property
    def wrong_dtypes(self) -> Mapping[str, str]:
        """By dtype, what this worker's surroundings get wrong whatever the kernel does, and how that was seen."""
        return {}

    @property
    def surroundings(self) -> str:
        """What measured figures depend on other than the kernel: processor, emulator, compiler, libraries."""
        raise NotImplementedError

    @property
    def undecidable(self) -> str:
        """What this worker's surroundings get wrong, as only the call itself shows: the reason why such a case is
        NOT_RUN; empty when there is nothing."""
        return ""


@dataclass(frozen=True)
class NotRun:
    """A target that has no worker, and so is not judged."""

    reason: str
    """One line."""
    broken: str = ""
    """All that is known, where the kernel itself is to blame: it does not compile or load, or its worker is not what it
    must be. '' where this machine is to blame."""

    @classmethod
    def broken_by(cls, error: Exception) -> NotRun:
        """Return a kernel of which no worker can be built or started."""
        from fuzz.core.adapters.build import BuildError

        said = str(error).strip() or repr(error)
        return cls(error.reason if isinstance(error, BuildError) else said.splitlines()[0], said)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(self.reason))


def sandbox_of(kernel: Kernel, *paths: Path) -> Sandbox | None:
    """Return the sandbox that the workers of a kernel run in, from which they see these paths; None for one that
    somebody vouches for."""
    if not kernel.untrusted:
        return None
    from fuzz.core.transport.sandbox import Sandbox

    return Sandbox().showing(*paths)


class Program(Protocol):
    """Starts worker processes of one target, and knows what they must attest."""

    @property
    def household(self) -> str:
        """Equal for programs that can run in one process, one after the other; '' for a program that needs its own."""
        ...

    @property
    def order(self) -> str:
        """The message by which a process of its household is told to run it."""
        ...

    def process(self, limit: float) -> Process:
        """Start a process. Raises OSError."""
        ...

    def attested(self, hello: str) -> Attestation:
        """Return what a process said of itself. Raises AttestationError where it is not what the target asks for,
        Unavailable where the target turns out not to run here, BuildError where its kernel cannot be loaded."""
        ...

    def bystander(self) -> Bystander | None:
        """Return a process started like its own, with another kernel; None where these run directly on this machine. It
        is only asked for after a process ended without saying what it is. Raises BuildError and OSError."""
        ...


NO_PROGRAM = "."
"""The suffix of an adapter that writes no programs for its kernels; no file has it."""


class Adapter(ABC):
    """What is done with kernels of one kind. Nothing else depends on the kind of a kernel."""

    suffix: str
    """The suffix of files in its language."""
    kernel_per_source: bool = True
    """Whether a source belongs to one kernel; otherwise a file may have many, and sharing it means nothing."""

    @abstractmethod
    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        """Return every target of the kernel, whether or not it can run here: nothing is left out silently."""

    @abstractmethod
    def unavailable(self, target: Target) -> str | None:
        """Return why the target cannot run here and how to get it, or None when it can."""

    @abstractmethod
    def tools(self, target: Target) -> tuple[Tool, ...]:
        """Return the programs that must be installed for it."""

    @abstractmethod
    def program(self, target: Target, builder: Builder) -> Program:
        """Return what its workers are started from, built unless the cache has it. Raises BuildError."""

    def share(self, target: Target, builder: Builder) -> None:  # noqa: B027  (most have nothing to share)
        """Start what its workers have in common, before the processes that start them are forked. Raises OSError."""

    @abstractmethod
    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        """Return a program of that name that makes the calls by itself; its first comment contains `about`."""

    @abstractmethod
    def definition(self, kernel: Kernel) -> str:
        """Return the text before the parameters in the definition of the kernel's function."""

    @abstractmethod
    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        """Return the files that the kernel is made of, without ours, with their texts as they are built, or the digest
        of a library. Raises BuildError."""
