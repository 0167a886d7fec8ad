"""The program of a kernel written in Python: what its workers are started from, and what the workers attest."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.core.adapters.build import Builder, BuildError, digest_of, edited_source
from fuzz.core.adapters.cuda import VISIBLE, program_of
from fuzz.core.adapters.python_kernel import FRAMEWORKS, Framework, PythonKernel
from fuzz.core.adapters.target import Attestation, AttestationError, Target, Unavailable
from fuzz.core.adapters.toolchain import fault_watcher
from fuzz.core.base.kernel import Kernel
from fuzz.core.transport.child import Child, command
from fuzz.core.transport.fork_server import fork_server, worker_environment
from fuzz.core.transport.journal import Journal
from fuzz.core.transport.process import MEMORY_LIMIT, Process
from fuzz.core.transport.python.kernel import MARGIN_BYTES, Spec, source_digest
from fuzz.core.transport.python.watched import REPORT
from fuzz.core.transport.sandbox import PRIVATE, Sandbox
from oracles.ops import OPS

# Output of a tool on stdout would be taken for the worker's frames, so it goes to stderr.
_WATCHED = f'{REPORT}=$(mktemp) && export {REPORT} && exec "$0" --log-file "${REPORT}" "$@" 3>&1 1>&2'


def program_for(target: Target, builder: Builder, mode: str) -> PythonProgram:
    """Return the program from which workers of a target are started. Code must run in this mode. Raises BuildError."""
    return PythonProgram(target, *spec_of(target, builder), mode, _sandbox_of(target.kernel, builder))


def begin_shared(target: Target, framework: Framework, builder: Builder) -> None:
    """Start the server from which the workers of a target are forked. The kernel need not be in Python: one in CUDA C++
    is launched by such a worker. Raises OSError."""
    kernel, interpreted = target.kernel, target.name.site == "interpret"
    fork_server(imports_of(framework, untrusted=kernel.untrusted), interpreted, _sandbox_of(kernel, builder)).begin()


def imports_of(own: Framework, *, untrusted: bool) -> tuple[str, ...]:
    """Return the modules to import before workers of a framework are forked. Untrusted kernels have a server of their
    own, which need not import modules for other frameworks."""
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


def spec_of(target: Target, builder: Builder) -> tuple[Spec, str]:
    """Return the spec for a worker of `target`, and the digest of the code. The source is written to the cache, where
    Triton looks it up, with the files that it may import. Raise BuildError."""
    kernel = PythonKernel.of(target.kernel)
    texts = {**kernel.modules, kernel.source.name: edited_source(kernel)}
    digest, op = source_digest(texts), OPS[kernel.op]
    caches, compiled = ({}, Path(PRIVATE)) if kernel.untrusted else (os.environ, builder.cache)
    copied = f"{_apart(kernel.source.parent)}/" if kernel.untrusted else ""
    copies = {name: builder.text(f"{copied}python-{digest[:32]}", name, text) for name, text in texts.items()}
    framework, device = FRAMEWORKS[kernel.framework], target.name.site
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
        watcher="" if target.name.site == "cuda" else fault_watcher(builder),
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
        that libraries read at first use. '' for a kernel that needs its own process, as one with modules beside it
        does."""
        if not self.target.shares or self.sandbox is not None or self.spec.siblings:
            return ""
        imports = imports_of(FRAMEWORKS[self.spec.framework], untrusted=False)
        described = [self.spec.device, self.spec.sanitizer, imports, dict(self.spec.environment)]
        return json.dumps(described, sort_keys=True)

    @property
    def order(self) -> str:
        return self.spec.encoded()

    def process(self, limit: float) -> Process:
        interpreted = self.target.name.site == "interpret"
        # CUDA reserves far more addresses than it uses
        memory = None if self.target.name.site == "cuda" else MEMORY_LIMIT
        if self.target.sanitizer:
            tool = program_of(self.target.sanitizer)
            assert tool is not None, "a target that is available"
            worker = [sys.executable, "-m", "fuzz.core.transport.python", "run", self.spec.encoded(), "3"]
            words = ["sh", "-c", _WATCHED, *tool, *worker]
            environment = worker_environment(interpreted)
            start_tool = command(words, environment, self.sandbox)
            return Process(start_tool, limit, memory, sandboxed=self.sandbox is not None)

        journal = Journal()

        imports = imports_of(FRAMEWORKS[self.spec.framework], untrusted=self.sandbox is not None)
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
        if found.device != self.target.name.site:
            wrong.append(f"{self.target.name.site} was requested, the worker runs on {found.device}")
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
    """For each autotuner of the kernel, the place of the configuration that it takes."""

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
