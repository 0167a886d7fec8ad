"""The adapter of kernels written in Python: their workers, attestations and programs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.core.adapters.build import Builder, BuildError, digest_of, edited_source
from fuzz.core.adapters.cuda import MISSING, VISIBLE, no_cuda_device, program_of
from fuzz.core.adapters.python_kernel import FRAMEWORKS, Framework, python_kernel
from fuzz.core.adapters.signature import belonging
from fuzz.core.adapters.target import Adapter, Attestation, AttestationError, Target, TargetId, Unavailable
from fuzz.core.adapters.toolchain import Host, Tool, fault_watcher, program
from fuzz.core.base.kernel import Kernel
from fuzz.core.transport.child import Child, command
from fuzz.core.transport.fork_server import fork_server, worker_environment
from fuzz.core.transport.journal import Journal
from fuzz.core.transport.process import MEMORY_LIMIT, Process
from fuzz.core.transport.python.kernel import MARGIN_BYTES, Spec, source_digest
from fuzz.core.transport.python.watched import REPORT
from fuzz.core.transport.sandbox import PRIVATE, Sandbox
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.core.adapters.export import Script

# Output of a tool on stdout would be taken for the worker's frames, so it goes to stderr.
_WATCHED = f'{REPORT}=$(mktemp) && export {REPORT} && exec "$0" --log-file "${REPORT}" "$@" 3>&1 1>&2'
_NO_TORCH = "torch is not installed, which has the tensors on a GPU: pip install torch"


@dataclass(frozen=True)
class PythonAdapter(Adapter):
    """The adapter of kernels of one framework."""

    framework: Framework
    suffix = ".py"
    kernel_per_source = False

    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        places = {place.device: place for place in self.framework.places}
        for device in python_kernel(kernel).devices or places:
            place, cuda = places[device], device == "cuda"
            target = Target(
                TargetId(kernel.kind, kernel.name, device), kernel, self, (("device", device),),
                place.case_limit, place.size_limit, slow=place.slow or kernel.slow, costly=True, batched=cuda,
                sanitizable=cuda, specialised=cuda and (kernel.kind == "triton" or kernel.slow),
                shares=cuda and not kernel.untrusted,
            )  # fmt: skip
            yield from self._configured(target)

    def _configured(self, target: Target) -> Iterator[Target]:
        """Yield a target for each configuration of its kernel; the target itself where there is only one."""
        kernel = python_kernel(target.kernel)
        tunes = kernel.tuned is None and "torch" in self.framework.packages and self._names_autotuners(kernel)
        if not (kernel.configs or tunes or kernel.tuned):
            yield target
            return
        from fuzz.core.adapters.configured import each_of, told_by_worker

        there = tunes and target.unavailable() is None
        tuned = told_by_worker(self.program(target, Builder())) if there else kernel.tuned or ()
        yield from each_of(target, kernel.configurations, tuned)

    def _names_autotuners(self, kernel: Kernel) -> bool:
        with suppress(BuildError, OSError):
            return any("autotune" in text for text in self.files(kernel).values())
        return False

    def unavailable(self, target: Target) -> str | None:
        missing = self.missing_package()
        if missing is None and target.name.place == "cuda":
            missing = no_cuda_device() or (None if _is_installed("torch") else _NO_TORCH)
        lacking = [each for each in python_kernel(target.kernel).imported if not _is_installed(each)]
        missing = missing or (f"{lacking[0]} is not installed" if lacking else None)
        missing = missing or (MISSING if target.sanitizer and program_of(target.sanitizer) is None else None)
        return missing or next((tool.missing for tool in self.tools(target) if tool.missing), None)

    def tools(self, target: Target) -> tuple[Tool, ...]:
        """Return the programs that the kernel needs; none if packages are missing, or on a GPU, which needs none."""
        if target.name.place == "cuda" or self.missing_package() is not None:
            return ()
        return tuple(program(name) for name in python_kernel(target.kernel).programs)

    def program(self, target: Target, builder: Builder) -> PythonProgram:
        [mode] = [place.mode for place in self.framework.places if place.device == target.name.place]
        return PythonProgram(target, *spec_of(target, builder), mode, _sandbox_of(target.kernel, builder))

    def share(self, target: Target, builder: Builder) -> None:
        if not target.sanitizer and self.unavailable(target) is None:
            interpreted = target.name.place == "interpret"
            imports = _imports(self.framework, untrusted=target.kernel.untrusted)
            fork_server(imports, interpreted, _sandbox_of(target.kernel, builder)).begin()

    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        from fuzz.core.adapters.export import python_script

        kernel = python_kernel(target.kernel)
        said = [*about, "", f"It exits with 1 where the kernel fails:  python {shlex.quote(name)}"]
        place, maker = target.name.place, kernel.arrays or self.framework.makers.get(target.name.place, "")
        library = "torch" if place == "cuda" or "torch" in self.framework.packages else "numpy"
        own = {meant: name for name, meant in dict(kernel.arguments).items()}
        options = dict((*kernel.options, *target.configuration.options))
        return python_script(kernel, kernel.function, options, place, script, said, library, maker, own)

    def definition(self, kernel: Kernel) -> str:
        return python_kernel(kernel).shown or f"def {python_kernel(kernel).function}"

    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        """Return the kernel's files, with files that belong to it and modules in its folder that its source names."""
        source, text = kernel.source.resolve(), edited_source(kernel)
        named = [path for path in source.parent.glob("*.py") if re.search(rf"\b{path.stem}\b", text)]
        beside = [*named, *belonging(source, text).values()]
        # All modules of a package count, since only a run shows which of them are imported.
        beside += [module for folder in beside if folder.is_dir() for module in folder.rglob("*.py")]
        found = {path.resolve() for path in beside if path.is_file()}
        return {source: text, **{path: path.read_text("utf-8", "replace") for path in found if path != source}}

    def missing_package(self) -> str | None:
        """Return why the framework cannot be used and how to install it, or None."""
        missing = next((package for package in self.framework.packages if find_spec(package) is None), None)
        return None if missing is None else f"{missing} is not installed: pip install {missing}"


def imports_of(framework: str, *, untrusted: bool) -> tuple[str, ...]:
    """Return the modules to import before workers of a framework are forked. Untrusted kernels have a server of their
    own, which need not import modules for other frameworks."""
    return _imports(FRAMEWORKS[framework], untrusted=untrusted)


def _imports(own: Framework, *, untrusted: bool) -> tuple[str, ...]:
    return tuple(each for each in own.imports if not untrusted or each.partition(".")[0] in own.packages)


def _sandbox_of(kernel: Kernel, builder: Builder) -> Sandbox | None:
    return sandbox_at(kernel.source.parent, builder) if kernel.untrusted else None


def sandbox_at(home: Path, builder: Builder) -> Sandbox:
    """Return the sandbox of kernels whose files are in folder `home`. It shows this folder and, of the build cache,
    only what was built for it."""
    apart = builder.cache / _apart(home)
    with suppress(OSError):  # a later write there reports the error
        apart.mkdir(parents=True, exist_ok=True)
    return Sandbox().showing(home, apart, *map(Path, filter(None, [fault_watcher(builder)])))


def _apart(home: Path) -> str:
    """Return a folder of the cache for what is built from an untrusted folder's files."""
    return f"apart-{digest_of([str(home.absolute())])[:32]}"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module made by hand has no spec
        return True


def spec_of(target: Target, builder: Builder) -> tuple[Spec, str]:
    """Return the spec for a worker of `target`, and the digest of the code. The source is written to the cache, where
    Triton looks it up, with the files that it may import. Raise BuildError."""
    kernel = python_kernel(target.kernel)
    texts = {**kernel.modules, kernel.source.name: edited_source(kernel)}
    digest, op = source_digest(texts), OPS[kernel.op]
    caches, compiled = ({}, Path(PRIVATE)) if kernel.untrusted else (os.environ, builder.cache)
    copied = f"{_apart(kernel.source.parent)}/" if kernel.untrusted else ""
    copies = {name: builder.text(f"{copied}python-{digest[:32]}", name, text) for name, text in texts.items()}
    framework, device = FRAMEWORKS[kernel.framework], target.name.place
    spec = Spec(
        source=str(copies[kernel.source.name]),
        folder=str(kernel.source.parent.absolute()),
        op=kernel.op,
        entry=kernel.function,
        framework=kernel.framework,
        device=device,
        options=dict((*kernel.options, *target.configuration.options)),
        choices=target.configuration.choices,
        arguments=dict(kernel.arguments),
        environment={
            "TRITON_CACHE_DIR": caches.get("TRITON_CACHE_DIR", str(compiled / "triton")),
            "TORCHINDUCTOR_CACHE_DIR": caches.get("TORCHINDUCTOR_CACHE_DIR", str(compiled / "inductor")),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            # These headers are larger than any file that a worker may write, and would be left half written.
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
            # Under a tool every tensor is an allocation of its own, so that the tool watches its exact end.
            **({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if target.sanitizer else {}),
            **({VISIBLE: os.environ[VISIBLE]} if VISIBLE in os.environ else {}),
            **framework.variables.get(device, {}),
            **kernel.variables,
        },
        margin=0 if target.sanitizer else MARGIN_BYTES,
        variables=list(kernel.variables),
        packages=kernel.imported,
        siblings=kernel.siblings,
        outputs=[o.name for o in op.outputs if not o.optional or o.name in kernel.able.optional],
        neutral=op.neutral,
        tensors=len(op.operands),
        arrays=kernel.arrays or framework.makers.get(device, ""),
        programs=builder.programs if target.specialised and not kernel.untrusted else "",
        watcher="" if target.name.place == "cuda" else fault_watcher(builder),
        sanitizer=target.sanitizer,
        keeps=list(kernel.keeps),
    )
    return spec, digest


@dataclass(frozen=True)
class PythonProgram:
    """The source of a Python kernel, ready to be run."""

    target: Target
    spec: Spec
    digest: str
    mode: str
    """The way in which the code must run for the worker to be accepted, such as 'compiled'."""
    sandbox: Sandbox | None = None

    @property
    def household(self) -> str:
        """The properties that a process has from its start: the tool that watches it, its imports, and the environment
        that libraries read at first use. '' for a kernel that needs its own process, like one with modules beside
        it."""
        if not self.target.shares or self.sandbox is not None or self.spec.siblings:
            return ""
        imports = imports_of(self.spec.framework, untrusted=False)
        described = [self.spec.device, self.spec.sanitizer, imports, dict(self.spec.environment)]
        return json.dumps(described, sort_keys=True)

    @property
    def order(self) -> str:
        return self.spec.encoded()

    def process(self, limit: float) -> Process:
        interpreted = self.target.name.place == "interpret"
        # CUDA reserves far more addresses than it uses
        memory = None if self.target.name.place == "cuda" else MEMORY_LIMIT
        if self.target.sanitizer:
            tool = program_of(self.target.sanitizer)
            assert tool is not None, "a target that is available"
            worker = [sys.executable, "-m", "fuzz.core.transport.python", "run", self.spec.encoded(), "3"]
            words = ["sh", "-c", _WATCHED, *tool, *worker]
            environment = worker_environment(interpreted)
            start_tool = command(words, environment, self.sandbox)
            return Process(start_tool, limit, memory, sandboxed=self.sandbox is not None)

        journal = Journal()

        imports = imports_of(self.spec.framework, untrusted=self.sandbox is not None)
        server = fork_server(imports, interpreted, self.sandbox)

        def start(stdin: int, stdout: int, stderr: int) -> Child:
            return server.start(self.spec.encoded(), stdin, stdout, stderr, journal.descriptor)

        return Process(start, limit, memory, journal=journal, sandboxed=self.sandbox is not None)

    def bystander(self) -> None:
        return None  # no emulator or other program is between the kernel and this machine

    def attested(self, hello: str) -> PythonAttestation:
        said = dict(line.split("=", 1) for line in hello.splitlines())
        if "broken" in said:
            raise BuildError(f"{self.target.kernel.name}: {said['broken']}")
        if "missing" in said:
            raise Unavailable(said["missing"])
        versions: dict[str, str] = {name: said[name] for name in ("torch", "triton", "numpy", "python") if name in said}
        versions |= json.loads(said["packages"])
        facts = {name: said[name] for name in ("name", "capability", "driver", "processor", "bf16") if name in said}
        found = PythonAttestation(
            said["digest"], said["mode"], said["device"], versions, json.loads(said["variables"]), **facts,
            configurations=said["configurations"], choices=tuple(json.loads(said["choices"])),
        )  # fmt: skip
        self._check(found)
        return found

    def _check(self, found: PythonAttestation) -> None:
        wrong = []
        if found.device != self.target.name.place:
            wrong.append(f"{self.target.name.place} was requested, the worker runs on {found.device}")
        if found.mode != self.mode:
            wrong.append(f"{self.mode} code was requested, the worker runs {found.mode} code")
        if found.digest != self.digest:
            wrong.append(f"code {self.digest[:16]} was requested, the worker runs {found.digest[:16]}")
        if (wanted := self.target.configuration).choices or found.choices:
            from fuzz.core.adapters.configured import misfit

            wrong += misfit(wanted, found.configurations, found.choices)
        if found.variables != self.target.kernel.variables:
            wrong.append(f"{self.target.kernel.variables} was requested, the worker has {found.variables}")
        if wrong:
            raise AttestationError(f"{self.target.id}: {'; '.join(wrong)}")


@dataclass(frozen=True)
class PythonAttestation(Attestation):
    """The attestation of a Python worker."""

    mode: str
    """How the code runs: 'compiled' or 'interpreted' by Triton, or 'torch' or 'numpy'."""
    device: str
    """The device of the target. The fields from `name` on are about the hardware, if there is a CUDA device."""
    versions: Mapping[str, str]
    """The versions of the framework and of the packages that the kernel names."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that the kernel declares."""
    name: str = ""
    capability: str = ""
    driver: str = ""
    """The newest CUDA version that the driver supports."""
    processor: str = ""
    """The maker, model and vector instructions of the processor, if it does the arithmetic."""
    bf16: str = ""
    """The errors of bf16 on this worker, or '' if there are none."""
    configurations: str = "[]"
    """The configurations of the kernel's autotuners, as JSON."""
    choices: tuple[int, ...] = ()
    """The place of the configuration that each of these takes."""

    @property
    def words(self) -> str:
        where = f"on {self.name}, capability {self.capability}, driver {self.driver}" if self.name else "on the CPU"
        versions = (f"{name} {version}" for name, version in self.versions.items())
        variables = (f"{name}={value!r}" for name, value in self.variables.items())
        return f"{self.mode} {where}, {', '.join((*versions, *variables))}"

    @property
    def surroundings(self) -> str:
        where = f"{self.name}, capability {self.capability}, driver {self.driver}" if self.name else self.processor
        libraries = [f"{name} {version}" for name, version in self.versions.items() if name != "python"]
        return ", ".join([where, f"{self.mode} code", *libraries])

    @property
    def wrong_dtypes(self) -> Mapping[str, str]:
        return {"bf16": self.bf16} if self.bf16 else {}
