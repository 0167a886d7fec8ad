"""Targets and adapters. A target is one row: where and how a kernel runs. An adapter treats kernels of one kind."""

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
from fuzz.core.base.dispatch import Dispatch, SizeLimit
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
    """A program without the kernel. If it does not start either, the kernel is not to blame."""

    process: Process
    site: str
    """The name of the program that starts the bystander, such as 'qemu'."""
    command: Sequence[str]

    def hindrance(self) -> Steps[str]:
        """Return in one line why the bystander does not start, or '' if it starts. By then, its process has ended."""
        try:
            yield from self.process.hello()
        except EndedError as error:
            ending, what = error.ending, shlex.join(self.command)
            nothing = f"it is not ready after {self.process.start_limit:g} s" if ending.hung else str(ending)
            first = next(iter(ending.said.splitlines()), "") or nothing
            return f"{self.site} starts no worker: {first} (to see it: {what})"
        finally:
            self.process.close()
        return ""


@dataclass(frozen=True)
class TargetId:
    """The id of a target: the kernel, where it runs, and how it was built, as in `c-sve@qemu:vl=256,gcc-O0` or
    `triton-persistent@interpret`."""

    kind: str
    """The kind of the kernel, such as 'c'."""
    kernel: str
    site: str
    """'native', an emulator, 'interpret', a device, or a row of the pack's `targets.toml`."""
    settings: tuple[tuple[str, str], ...] = ()
    """The settings of the site, such as ("vl", "256")."""
    compiler: str = ""
    opt: str = ""

    @classmethod
    @lru_cache(maxsize=4096)
    def parse(cls, text: str) -> TargetId:
        """Return the id that `str` wrote. Other text is read as far as possible, since case files may hold anything."""
        head, _, where = text.partition("@")
        kind, dash, kernel = head.partition("-")
        site, _, details = where.partition(":")
        parts = [part for part in details.split(",") if part]
        settings = [part.partition("=")[::2] for part in parts if "=" in part]
        compiler, _, opt = next((part for part in parts if "=" not in part), "").partition("-")
        return cls(kind if dash else "", kernel if dash else head, site, tuple(settings), compiler, opt)

    def __str__(self) -> str:
        return f"{self.implementation}@{self.where}"

    @property
    def implementation(self) -> str:
        """The kernel with its kind, wherever it runs, such as `c-sve`."""
        return f"{self.kind}-{self.kernel}" if self.kind else self.kernel

    @property
    def where(self) -> str:
        """The id without the kernel, such as `qemu:vl=256,gcc-O0`."""
        details = [*self.set_there, *([f"{self.compiler}-{self.opt}"] if self.compiler else [])]
        return f"{self.site}:{','.join(details)}" if details else self.site

    @property
    def set_there(self) -> tuple[str, ...]:
        """The settings as they are printed, such as `vl=256`."""
        return tuple(f"{name}={value}" for name, value in self.settings)


@dataclass(frozen=True)
class Configuration:
    """One of the configurations that a kernel can be launched with or built in."""

    settings: tuple[tuple[str, str], ...] = ()
    """The settings of the configuration, as in the ids of targets and in rules of failing, such as ("BLOCK", "128")."""
    options: tuple[tuple[str, str | int | float | bool], ...] = ()
    """The keyword arguments that the configuration adds to the call of a function."""
    choices: tuple[int, ...] = ()
    """For each autotuner of a Triton kernel, the place of the configuration that it takes."""
    spare: str = ""
    """The reason why the configuration is not run, if a kernel has more of them than are run; else ''."""

    @property
    def text(self) -> str:
        """The settings in words, such as 'BLOCK=128, num_warps=4'."""
        return ", ".join(f"{name}={value}" for name, value in self.settings)


@dataclass(frozen=True)
class Target:
    """Where and how a kernel runs: one row with the same fields for kernels of every kind. Its adapter acts on it."""

    name: TargetId
    kernel: Kernel
    adapter: Adapter = field(repr=False)
    traits: tuple[tuple[str, str | int], ...]
    """The properties of the target, in the words in which a rule of failing is stated."""
    case_limit: float
    """The time limit of a case in seconds: long enough for a busy machine, and an end for endless loops."""
    size_limit: SizeLimit | None = None
    """The limits of cases that a search dispatches to the target."""
    slow: bool = False
    """Whether a case takes hundreds of times as long as on other targets, so a search gives this target fewer cases."""
    costly: bool = False
    """Whether a case takes milliseconds rather than microseconds, so that a failure is explained with few probes."""
    batched: bool = False
    """Whether cases of one frame are launched together, so that a death does not tell which of them caused it.
    Otherwise every case is answered before the next one starts, and silence names the culprit."""
    specialised: bool = False
    """Whether a program is compiled for each length, dtype and alignment with which the kernel is called. A case may
    then take seconds, and further cases of the same program next to nothing."""
    shares: bool = False
    """Whether workers take over processes from one another, since each takes hundreds of megabytes of a device."""
    sanitizable: bool = False
    """Whether tools that watch device memory are useful for the target."""
    sanitizer: str = ""
    """The tool that watches the target; '' for none."""
    arch: str = ""
    """The architecture for which the code is compiled. This field and the next are for code compiled ahead."""
    emulator: Emulator | None = None
    """The emulator under which the code runs; None on a real processor."""
    own: OwnTarget | None = None
    """The target's row in the pack's `targets.toml`, if it comes from there."""
    settings: Settings = ()
    """The values of settings that the instruction set leaves open."""
    flags: tuple[str, ...] = ()
    """The compiler flags of the kernel's object file."""
    host: Host | None = None
    """The machine that compiles the kernel and starts the workers."""
    configuration: Configuration = Configuration()

    @cached_property
    def id(self) -> str:
        """The id as text, such as `c-sve@qemu:vl=256,gcc-O0`. It is unique among the targets of one host."""
        return str(self.name)

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown trait, which would be taken for a condition on the case."""
        unknown = [name for name, _ in self.traits if name not in causes_by_trait()]
        if unknown:
            raise ValueError(f"{self.id}: nobody knows what the trait {unknown[0]!r} of a target is about")

    def dispatch(self, bounded: bool = True) -> Dispatch:
        """Return what decides which cases are sent to the target: of every size unless `bounded`."""
        limit = self.size_limit if bounded else None
        return Dispatch(self.kernel.capability, limit, far=not self.sanitizer)

    @property
    def _width(self) -> int | None:
        """The width of vectors in bits, if it is a setting; else None."""
        return next((int(value) for setting, value in self.settings if setting.is_width), None)

    @property
    def lanes(self) -> int | None:
        """The number of float32 lanes of vectors, if their width is a setting; else None."""
        return None if self._width is None else self._width // LANE_BITS

    @cached_property
    def contract(self) -> Contract:
        """The kernel's contract on this target."""
        return self.meant(self.kernel.contract)

    def meant(self, contract: Contract) -> Contract:
        """Return a contract completed by the platform's facts, at the width of the target's vectors."""
        kernel = self.kernel
        found = self.platform.completed(contract, OPS[kernel.op], kernel.able.dtypes, asks_tf32=kernel.asks_tf32)
        return found.at(self._width)

    @property
    def platform(self) -> Platform:
        """The documented facts about the target's arithmetic."""
        return platform_of(self.kernel.arithmetic, self.name.site, self.kernel.contract.platform)

    @property
    def emulated(self) -> bool:
        """Whether the code runs under an emulator."""
        return self.emulator is not None

    @property
    def remote(self) -> bool:
        """Whether the target is on another machine, to which the worker is sent."""
        return self.own is not None and self.own.remote

    @property
    def is_elsewhere(self) -> bool:
        """Whether the target is on a machine with another processor."""
        return self.host is not None and self.host.arch != this_host().arch

    def unavailable(self) -> str | None:
        """Return why the target cannot run here and what to do, or None if it can."""
        missing = self.kernel.unfetched or self.adapter.unavailable(self) or self.configuration.spare
        if missing or not self.kernel.untrusted:
            return missing or None
        from fuzz.core.transport.sandbox import unusable

        return unusable()

    @property
    def told(self) -> tuple[tuple[str, str | int], ...]:
        """The properties that a rule of failing can name: the target's traits, and its configuration's settings."""
        return *self.traits, *self.configuration.settings


LANE_BITS = 32
"""The size of a lane in bits. Kernels compute in float32, whatever dtype they store."""


def lane_counts() -> frozenset[int]:
    """Return the numbers of float32 lanes that targets may have by their settings."""
    widths = (int(value) for setting in isa.settings() if setting.is_width for value in setting.options)
    return frozenset(width // LANE_BITS for width in widths)


def causes_by_trait() -> Mapping[str, str]:
    """Return, for each trait of a target, the cause of a failure that depends on it. Other traits are about cases."""
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
    """A worker that is not what its target requested, so that nothing it computes may be judged. An internal error."""


class Unavailable(Exception):  # noqa: N818 (a state of the machine, not a mistake)
    """A worker found after its start that its target cannot run here. The message says why."""


@dataclass(frozen=True)
class Attestation:
    """What a worker observed about itself when it started. Each kind of kernel adds its own facts."""

    digest: str
    """The digest of the code that the worker runs. It must be the digest of what was built."""

    @property
    def words(self) -> str:
        """The attestation as one line for people."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The attestation in one line, without properties in which similar targets differ, such as vector lengths."""
        return self.words

    @property
    def wrong_dtypes(self) -> Mapping[str, str]:
        """The errors of this worker's surroundings that no kernel causes, by dtype, with how they were seen."""
        return {}

    @property
    def surroundings(self) -> str:
        """Everything besides the kernel on which measured figures depend: processor, emulator, compiler, libraries."""
        raise NotImplementedError

    @property
    def undecidable(self) -> str:
        """An error of the worker's surroundings that only a call itself shows. It is the reason why such a case is
        NOT_RUN; '' if there is none."""
        return ""


@dataclass(frozen=True)
class NotRun:
    """A target that has no worker and so is not judged."""

    reason: str
    """The reason, in one line."""
    broken: str = ""
    """All known details if the kernel itself is to blame: it does not compile or load, or its worker is not what it
    must be. '' if this machine is to blame."""

    @classmethod
    def broken_by(cls, error: Exception) -> NotRun:
        """Return the record for a kernel whose worker could not be built or started because of an error."""
        from fuzz.core.adapters.build import BuildError

        said = str(error).strip() or repr(error)
        return cls(error.reason if isinstance(error, BuildError) else said.splitlines()[0], said)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(self.reason))


def sandbox_of(kernel: Kernel, *paths: Path) -> Sandbox | None:
    """Return the sandbox for workers of an untrusted kernel, which shows these paths, or None for a trusted kernel."""
    if not kernel.untrusted:
        return None
    from fuzz.core.transport.sandbox import Sandbox

    return Sandbox().showing(*paths)


class Program(Protocol):
    """Starts worker processes of one target, and checks their attestations."""

    @property
    def household(self) -> str:
        """A text that is equal for programs that can run in one process in turn; '' for one that needs its own."""
        ...

    @property
    def order(self) -> str:
        """The message that tells a process of the same household to run this program."""
        ...

    def process(self, limit: float) -> Process:
        """Start a process. Raise OSError."""
        ...

    def attested(self, hello: str) -> Attestation:
        """Return the attestation in a process's hello. Raise AttestationError if the process is not what the target
        requests, Unavailable if the target cannot run here, and BuildError if the kernel cannot be loaded."""
        ...

    def bystander(self) -> Bystander | None:
        """Return a process that is started like the program's own, but with another kernel. Return None if processes
        run directly on this machine. Call this only if a process ended without a hello. Raise BuildError or OSError."""
        ...


NO_PROGRAM = "."
"""The suffix of an adapter that writes no programs for its kernels. No file has it."""


class Adapter(ABC):
    """Everything that depends on the kind of a kernel."""

    suffix: str
    """The suffix of files in the language of the kernels."""
    kernel_per_source: bool = True
    """Whether each source belongs to one kernel. Otherwise a file may define many, so that sharing it means nothing."""

    @abstractmethod
    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        """Yield every target of the kernel, also those that cannot run here, so that nothing is left out silently."""

    @abstractmethod
    def unavailable(self, target: Target) -> str | None:
        """Return why the target cannot run here and what to do, or None if it can."""

    @abstractmethod
    def tools(self, target: Target) -> tuple[Tool, ...]:
        """Return the programs that must be installed for the target."""

    @abstractmethod
    def program(self, target: Target, builder: Builder) -> Program:
        """Return the program that starts the target's workers, built unless the cache has it. Raise BuildError."""

    def share(self, target: Target, builder: Builder) -> None:  # noqa: B027  (most have nothing to share)
        """Start what the target's workers share, before the processes that start workers are forked. Raise OSError."""

    @abstractmethod
    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        """Return the text of a program called `name` that makes the calls. Its first comment contains `about`."""

    @abstractmethod
    def definition(self, kernel: Kernel) -> str:
        """Return the text before the parameters in the definition of the kernel's function."""

    @abstractmethod
    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        """Return the files that make up the kernel, without those of this package. Each has its text as it is built, or
        the digest of a library. Raise BuildError."""
