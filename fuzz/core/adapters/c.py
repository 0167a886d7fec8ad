"""The adapter of kernels in C and C++. It builds one worker executable for each way of compiling a kernel, native or
emulated. It checks by the worker's attestation that the worker is what the target requested. And it writes a failure as
a C program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import ClassVar

from fuzz.core.adapters import abi, linking, remote, toolchain
from fuzz.core.adapters.build import (
    NATIVE,
    Builder,
    BuildError,
    digest_of,
    edited_source,
    edited_sources,
    included_files,
    machine,
)
from fuzz.core.adapters.c_build import Build, compiler_of, compilers_of, is_static, linker_of, own_headers, runtime_of
from fuzz.core.adapters.c_kernel import CKernel, c_kernel, language_of
from fuzz.core.adapters.export import Script, c_script
from fuzz.core.adapters.isa import ISAS, Value
from fuzz.core.adapters.linking import Library
from fuzz.core.adapters.sites import Site, sites
from fuzz.core.adapters.target import (
    Adapter,
    Attestation,
    AttestationError,
    Bystander,
    Configuration,
    Target,
    TargetId,
    Unavailable,
    sandbox_of,
)
from fuzz.core.adapters.toolchain import Host, Tool, emulator_helper
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.transport.child import Child, CompiledWorker
from fuzz.core.transport.frames import MISREADS
from fuzz.core.transport.journal import Journal
from fuzz.core.transport.process import MEMORY_LIMIT, Process
from fuzz.core.transport.sandbox import Sandbox, started
from oracles.ops import OPS


@dataclass(frozen=True)
class CAttestation(Attestation):
    """The attestation of a C worker: what it observed about its processor, and what its compiler wrote into it."""

    arch: str
    processor: str
    """The maker and model of the processor."""
    features: frozenset[str]
    """The instruction sets that the processor has and the operating system enables."""
    needs: frozenset[str]
    """The instruction sets that the compiler was free to use in the kernel."""
    lacks: frozenset[str]
    """The instruction sets that the compiler could not use in the kernel, so that code for them was left out."""
    settings: Mapping[str, Value]
    """The values of settings that instruction sets leave open, by the settings' words, read back from the hardware."""
    emulator: str
    """'tcg' under QEMU's translator, 'none' on hardware, or 'unknown'."""
    compiler: str
    """The compiler of the kernel's own object file."""
    flags: str
    page: int
    """The size of a page in bytes."""
    flushes: bool
    """Whether subnormals were flushed to zero when the worker started."""
    misreads: bool
    """Whether a masked load was seen to read lanes that its mask leaves out."""
    unloadable: str = ""
    """The reason why the library that the worker loads cannot be called; '' if it can, or if no library is loaded."""
    loaded: str = ""
    """The name of the library that the worker loads, with the start of its digest."""

    @classmethod
    def said(cls, hello: str) -> CAttestation:
        """Return the attestation in a worker's first message, with one line for each field, as `attest.c` writes it."""
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
    """Yield the words `name=value` of a line as pairs."""
    for word in line.split():
        name, _, value = word.partition("=")
        yield name, value


OPTS = ("O0", "O2")
"""The optimisation levels at which kernels are built: -O0, too, since a shipped SVE kernel was wrong only there."""
WORKER_FLAGS = ("-O3", "-std=gnu11")
_START_LIMIT_S = 30.0
"""The seconds that a worker may take to start. Chosen: a native worker takes milliseconds, an emulated one tenths of a
second, and the rest is room for busy machines."""
_BYSTANDER_LIMIT_S = 10.0
"""The seconds to wait for a program that does nothing, after the worker of a kernel failed to start. Chosen."""


class CAdapter(Adapter):
    """The adapter of kernels in C and C++."""

    suffix = ".c"

    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        known = c_kernel(kernel)
        families = ISAS[known.isa].compilers or toolchain.families(host)
        for site in sites(known.isa, known.beside, host):
            for family in families:
                each = product(OPTS, known.configurations)
                yield from (self._target(known, host, site, family, opt, *config) for opt, config in each)

    def _target(
        self, kernel: CKernel, host: Host, site: Site, family: str, opt: str, configuration: Configuration,
        flags: Sequence[str],
    ) -> Target:  # fmt: skip
        row = ISAS[kernel.isa]
        told = (("arch", site.arch),) if site.emulator is not None and row.arch is None else ()
        return Target(
            TargetId("c", kernel.name, site.name, (*told, *site.told, *configuration.settings), family, opt),
            kernel, self, (("optimisation", f"-{opt}"), ("compiler", family), *site.traits),
            site.case_limit, site.size_limit(opt),
            arch=site.arch, emulator=site.emulator, own=site.own, settings=site.settings, host=host,
            flags=(f"-{opt}", *row.flags.get(family, ()), *kernel.flags, *flags, *site.flags),
            configuration=configuration,
        )  # fmt: skip

    def unavailable(self, target: Target) -> str | None:
        assert target.host is not None
        features = ISAS[c_kernel(target.kernel).isa].features
        if target.remote:
            return remote.unavailable(target) or self._lacking(target)
        if not target.emulated and target.arch != target.host.arch:
            return f"needs a {target.arch} processor with {' '.join(sorted(features))}; QEMU does not have it"
        missing = sorted(features - target.host.features)
        if not target.emulated and missing:
            return f"this processor has no {' '.join(missing)}{_meant(missing, target.host.features)}"
        return self._lacking(target)

    def _lacking(self, target: Target) -> str | None:
        """Return which tools are not installed or which libraries cannot be linked, or None if nothing is missing."""
        lacking = "; ".join(tool.missing for tool in self.tools(target) if tool.missing is not None)
        return lacking or _unlinkable(target)

    def tools(self, target: Target) -> tuple[Tool, ...]:
        emulators = [] if target.emulator is None else [toolchain.emulator(target.emulator, target.arch)]
        return (*compilers_of(target), *emulators, *(target.own.tools if target.own is not None else ()))

    def program(self, target: Target, builder: Builder) -> CProgram:
        build, op = Build(target), OPS[target.kernel.op]
        parts, parts_digest = _worker_parts(target, compiler_of(target), builder)
        digest = build.digest(parts_digest)
        hides = target.emulator.hides_preload if target.emulator is not None else ()
        helper = emulator_helper(builder, target.host) if hides and target.host is not None else ""
        try:
            path = builder.compiled(f"worker-{digest[:32]}", lambda output: build.commands(output, digest, parts))
        except BuildError as error:
            entry = f"the entry is {abi.prototype(op)}; what it is given: kernelfuzz header {op.name}"
            raise error.noted(rf"\bkf_{op.name}(_call)?\b", entry) from None
        libraries = [each for each in c_kernel(target.kernel).libraries if isinstance(each, Path)]
        beside = [path for each in libraries for path in each.absolute().parent.glob("*.so*")]  # they may need these
        sandbox = sandbox_of(target.kernel, *libraries, *beside)
        idle = None if target.own is None and target.emulator is None else partial(_idle, self, target, builder)
        return CProgram(target, path, digest, helper, tuple(build.files), sandbox, idle)

    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        prefix = prefix_of(target)
        there = "cat > repro && chmod +x repro && ./repro" if target.remote else "./repro"
        run = shlex.join([Path(prefix[0]).name, *prefix[1:], there]) if prefix else there
        run += " < repro" if target.remote else ""
        how = [f"  {line}" for line in (*commands_of(target, name), run)]
        about = [*about, "", "Compile and run; it exits with 1 where the kernel fails:", *how]
        return c_script(code_of(target), script, about)

    def definition(self, kernel: Kernel) -> str:
        return f"kf_{kernel.op}"

    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        known, found = c_kernel(kernel), dict[Path, str]()
        for path, text in edited_sources(kernel).items():
            found |= {each.resolve(): included for each, included in own_headers(known, path, text).items()}
            found[path.resolve()] = text
        libraries = [each for each in known.libraries if isinstance(each, Path)]
        return {**found, **{each.resolve(): linking.library(each, known.binaries).digest for each in libraries}}


def _meant(missing: Sequence[str], known: Collection[str]) -> str:
    """Return a hint about the known features that missing ones probably mean, if Linux spells them differently."""
    plain = {re.sub(r"\W|_", "", each): each for each in sorted(known)}
    found = [plain[word] for each in missing if (word := re.sub(r"\W|_", "", each)) in plain]
    return f"; Linux calls it {' '.join(found)}, and a row has features by those names" if found else ""


def _unlinkable(target: Target) -> str | None:
    """Return why the libraries cannot be linked for this target, or None if they can. A broken file is reported when
    the target is built."""
    kernel = c_kernel(target.kernel)
    try:
        return linking.unusable(
            kernel.libraries, kernel.binaries, linker_of(target), target.arch, static=is_static(target)
        )
    except BuildError:
        return None


def prefix_of(target: Target) -> tuple[str, ...]:
    """Return the words that come before a program's path to run it."""
    if target.own is not None and target.own.prefix:
        return (*target.own.tools[0].command, *target.own.prefix[1:])
    if target.emulator is None:
        return ()
    options = ISAS[c_kernel(target.kernel).isa].processor_with(target.settings, target.arch)
    emulator = toolchain.emulator(target.emulator, target.arch)
    root = () if is_static(target) else _root(target)
    return (*emulator.command, *target.emulator.limits.get(target.arch, ()), *root, *options)


def _root(target: Target) -> tuple[str, ...]:
    """Return the options that tell an emulator where the libraries of another architecture are."""
    assert target.emulator is not None
    assert target.host is not None
    named = c_kernel(target.kernel).sysroot
    if named is None and target.arch == target.host.arch:
        return ()
    found = named or linking.sysroot(compiler_of(target))
    return () if found is None else (target.emulator.sysroot_option, str(found))


def _worker_parts(target: Target, tool: Tool, builder: Builder) -> tuple[tuple[Path, Path], str]:
    """Return the object files of the worker without a kernel, one of them for the op, and their digest."""
    # A file in an architecture's folder replaces the general file of the same name.
    folders = NATIVE, NATIVE / target.arch
    sources = {path.name: path for folder in folders for path in sorted(folder.glob("*.c"))}.values()
    headers = sorted(NATIVE.glob("*.h"))
    entry = abi.entry(OPS[target.kernel.op])
    words = [*tool.command, *WORKER_FLAGS, machine(target.arch), *abi.dtype_flags()]
    common = digest_of([words, tool.version, *(path.read_text() for path in [*sources, *headers])])
    digest = digest_of([common, entry])

    def call(output: Path) -> list[list[str]]:
        source = output.with_name("entry.c")
        source.write_text(entry, encoding="utf-8")
        return [[*words, f"-I{NATIVE}", "-c", str(source), "-o", str(output)]]

    parts = builder.compiled(
        f"parts-{common[:32]}", lambda output: [[*words, "-r", "-nostdlib", *map(str, sources), "-o", str(output)]]
    )
    return (parts, builder.compiled(f"entry-{digest[:32]}", call)), digest


def _idle(adapter: CAdapter, target: Target, builder: Builder) -> CProgram:
    """Build a program like the target's, with a kernel that does nothing. It tells a broken emulator from a broken
    kernel. Raise BuildError."""
    op = next(iter(OPS))
    text = f'#include "{abi.HEADER}"\nint kf_{op}(const kf_{op}_call *call) {{ return call == 0; }}\n'
    source = builder.text("idle", f"{op}.c", text)
    kernel = CKernel("idle", op, source, c_kernel(target.kernel).isa)
    flags = () if target.own is None else target.own.flags
    return CAdapter.program(adapter, replace(target, kernel=kernel, flags=flags), builder)


@dataclass(frozen=True)
class CProgram:
    """A worker executable with a C kernel linked in."""

    target: Target
    path: Path
    digest: str
    """The digest of sources, headers, flags and compiler. It is also compiled into the executable."""
    helper: str = ""
    """The library that is preloaded into the emulator, if any. The kernel does not see it."""
    libraries: tuple[Library, ...] = ()
    """The library files that the kernel is linked with or loads."""
    sandbox: Sandbox | None = None
    idle: Callable[[], CProgram] | None = None
    """Builds a worker with a kernel that does nothing, if the target has an emulator or is a row of the pack's
    `targets.toml`; else None."""
    household = order = ""
    compiled_here: ClassVar[bool] = True
    """Whether the kernel itself was compiled here, so it has only instructions that its compiler was allowed to use."""

    @property
    def command(self) -> tuple[str, ...]:
        emulator = self.target.emulator
        hidden = emulator.hides_preload if emulator is not None and self.helper else ()
        return (*prefix_of(self.target), *hidden, str(self.path))

    def process(self, limit: float, start_limit: float | None = None) -> Process:
        start_limit = start_limit or _START_LIMIT_S
        for each in self.libraries:
            if each.shared and each.changed:
                raise OSError(f"{each.path} is not what it was when the session began")
        if self.target.remote:
            return remote.process(self.target, self.path, limit, start_limit)
        journal = Journal()
        environment = {"LD_PRELOAD": self.helper} if self.helper else {}

        def start(stdin: int, stdout: int, stderr: int) -> Child:
            given = self.command, self.target.emulated, environment, journal.descriptor, self.sandbox
            worker = partial(CompiledWorker, *given, stdin, stdout, stderr)
            return worker() if self.sandbox is None else started(worker)

        memory = None if self.target.own is not None and self.target.own.reserves else MEMORY_LIMIT
        return Process(start, limit, memory, start_limit, journal, sandboxed=self.sandbox is not None)

    def attested(self, hello: str) -> CAttestation:
        found = CAttestation.said(hello)
        own, absent = self.target.own, self._absent(found)
        if own is not None and absent:
            raise Unavailable(f"what {own.site} runs on has no {absent}")
        wrong = list(self._wrong(found))
        if wrong and self.target.remote:
            raise Unavailable("; ".join(wrong))
        if wrong:
            raise AttestationError(f"{self.target.id}: {'; '.join(wrong)}")
        lacking = " ".join(sorted(ISAS[c_kernel(self.target.kernel).isa].features & found.lacks))
        if lacking and self.compiled_here:
            raise Unavailable(
                f"{found.compiler} could not use {lacking} with {found.flags}: this is the code without it"
            )
        return found

    def bystander(self) -> Bystander | None:
        if self.idle is None:
            return None
        program = self.idle()
        process = program.process(_BYSTANDER_LIMIT_S, _BYSTANDER_LIMIT_S)
        return Bystander(process, self.target.name.site, program.command)

    def _absent(self, found: CAttestation) -> str:
        """Return the features that the code needs and the processor lacks, in words."""
        return " ".join(sorted((ISAS[c_kernel(self.target.kernel).isa].features | found.needs) - found.features))

    def _wrong(self, found: CAttestation) -> Iterator[str]:
        """Yield each difference between the worker and the target's request, in words."""
        target = self.target
        if found.arch != target.arch:
            yield f"architecture {target.arch} was requested, the worker runs on {found.arch}"
        for setting, value in target.settings:
            if found.settings.get(setting.word) != value:
                has = found.settings.get(setting.word, "none")
                yield f"{setting.trait} {value} was requested, the worker has {has}"
        if absent := self._absent(found):
            yield f"{absent} was requested, the worker has {' '.join(sorted(found.features))}"
        if target.emulator is not None and found.emulator not in target.emulator.attested:
            yield "an emulator was requested, the worker runs on hardware"
        if found.digest != self.digest:
            yield f"code {self.digest[:16]} was requested, the worker runs {found.digest[:16]}"


_BEGINS, _ENDS = "/* kernelfuzz.h begins */", "/* kernelfuzz.h ends */"
"""The lines between which an exported program contains `kernelfuzz.h`."""
_INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)


def code_of(target: Target) -> str:
    """Return the whole kernel if it is one C file with its includes, else the header that declares its entry."""
    kernel = c_kernel(target.kernel)
    if _is_alone(kernel):
        return _with_includes(kernel, edited_source(kernel))
    header = abi.header(abi.named_ops(OPS[kernel.op], edited_sources(kernel).values()))
    return f"{_BEGINS}\n{header}{_ENDS}"


def commands_of(target: Target, name: str) -> list[str]:
    """Return the commands that compile the exported program `name` to `repro`. If the kernel is not inside the program,
    its sources are compiled in place. Raise UsageError for an edited kernel of several files: no file has its texts."""
    kernel, static = c_kernel(target.kernel), ["-static"] if is_static(target) else []
    flags = [f"-std={kernel.standard_of('c')}", *target.flags]
    if _is_alone(kernel):
        return [_line(compiler_of(target), [*flags, *static, name, *runtime_of(target), "-o", "repro"])]
    if kernel.edits:
        raise UsageError(f"--script: {kernel.name} is an edited kernel of several files: use repro itself")
    build, include = Build(target), [f"-I{each.absolute()}" for each in kernel.include]
    lines = [f"sed -n '{_pattern(_BEGINS)},{_pattern(_ENDS)}p' {shlex.quote(name)} > {abi.HEADER}"]
    lines.append(_line(compiler_of(target), [*flags, "-c", name, "-o", "repro.o"]))
    objects = ["repro.o"]
    for number, unit in enumerate(build.units):
        objects.append(f"{number}-{unit.path.name}.o")
        words = [*unit.words, *target.flags, "-I.", *include, "-c", str(unit.path.absolute()), "-o", objects[-1]]
        lines.append(_line(unit.tool, words))
    words = [*target.flags, *objects, *static, *build.linked, *runtime_of(target), "-o", "repro"]
    return [*lines, _line(linker_of(target), words)]


def _is_alone(kernel: CKernel) -> bool:
    """Whether the kernel is one C file with its includes, and has no libraries."""
    return len(kernel.written) == 1 and language_of(kernel.source) == "c" and not (kernel.libraries or kernel.include)


def _line(tool: Tool, words: Sequence[str]) -> str:
    return shlex.join([Path(tool.command[0]).name, *tool.prefix, *words])


def _pattern(line: str) -> str:
    """Return a regular expression of `sed` that matches the line."""
    return f"/^{line.replace('/', '.').replace('*', '.')}$/"


def _with_includes(kernel: CKernel, source: str) -> str:
    """Return the source with each include in quotes replaced by that file. Headers guard against a second inclusion."""
    texts = [text for path, text in included_files(kernel, kernel.source, source).items() if path.parent != NATIVE]
    header = abi.header(abi.named_ops(OPS[kernel.op], [source, *texts]))

    def whole(text: str, folder: Path) -> str:
        def inlined(match: re.Match[str]) -> str:
            path = folder / match[1]
            if path.is_file():
                return whole(path.read_text(), path.parent)
            return header if match[1] == abi.HEADER else match[0]

        return _INCLUDE_LINE.sub(inlined, text)

    return whole(source, kernel.source.parent)


ADAPTER = CAdapter()
