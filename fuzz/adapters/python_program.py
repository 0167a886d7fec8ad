"""Programs of Python kernels: the edited source on disk, a worker forked or run under a tool, its attestation."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fuzz.adapters.build import BuildError, cached_file, edited_source
from fuzz.adapters.python_target import PythonTarget
from fuzz.base.attestation import Attestation, AttestationError, Unavailable
from fuzz.transport.fork_server import fork_server, worker_environment
from fuzz.transport.process import MEMORY_LIMIT, Child, Process, command
from fuzz.transport.python.spec import MARGIN_BYTES, Spec, source_digest


@dataclass(frozen=True)
class PythonAttestation(Attestation):
    """What the worker of a Python kernel observed about itself."""

    mode: str
    """'compiled' or 'interpreted' by Triton, or 'torch'."""
    device: str
    """of the target; `name` and the rest are of the hardware, where there is a CUDA device."""
    versions: Mapping[str, str]
    name: str = ""
    capability: str = ""
    driver: str = ""
    """newest CUDA version that the driver has."""
    bf16: str = ""
    """what is wrong with bf16 here; empty when nothing is."""

    @property
    def words(self) -> str:
        where = f"on {self.name}, capability {self.capability}, driver {self.driver}" if self.name else "on the CPU"
        return f"{self.mode} {where}, {', '.join(f'{name} {version}' for name, version in self.versions.items())}"

    @property
    def not_given(self) -> Mapping[str, str]:
        return {"bf16": self.bf16} if self.bf16 else {}


@dataclass(frozen=True)
class PythonProgram:
    """A Python kernel's source, ready to be run."""

    target: PythonTarget
    spec: Spec
    digest: str
    tool: tuple[str, ...] = ()
    """command that the worker is run under, such as a memory checker."""

    def process(self, limit: float) -> Process:
        interpreted = self.target.device == "interpret"
        # CUDA reserves far more addresses than it uses.
        memory = None if self.target.device == "cuda" else MEMORY_LIMIT
        if self.tool:
            worker = [sys.executable, "-m", "fuzz.transport.python", "run", self.spec.encoded(), "3"]
            # A tool reports on its stdout, so the worker's frames go elsewhere.
            words = ["sh", "-c", 'exec "$@" 3>&1 1>&2', "sh", *self.tool, *worker]
            return Process(command(words, worker_environment(interpreted)), limit, memory)

        def start(stdin: int, stdout: int, stderr: int) -> Child:
            return fork_server(interpreted).start(self.spec.encoded(), stdin, stdout, stderr)

        return Process(start, limit, memory)

    def attested(self, hello: str) -> Attestation:
        said = dict(line.split("=", 1) for line in hello.splitlines())
        if "broken" in said:
            raise BuildError(f"{self.target.kernel.name}: {said['broken']}")
        if "missing" in said:
            raise Unavailable(said["missing"])
        versions: dict[str, str] = {name: said[name] for name in ("torch", "triton", "python") if name in said}
        facts = {name: said[name] for name in ("name", "capability", "driver", "bf16") if name in said}
        found = PythonAttestation(said["digest"], said["mode"], said["device"], versions, **facts)
        self._check(found)
        return found

    def _check(self, found: PythonAttestation) -> None:
        wrong = []
        if found.device != self.target.device:
            wrong.append(f"{self.target.device} was requested, the worker runs on {found.device}")
        if found.mode != self.target.mode:
            wrong.append(f"{self.target.mode} code was requested, the worker runs {found.mode} code")
        if found.digest != self.digest:
            wrong.append(f"code {self.digest[:16]} was requested, the worker runs {found.digest[:16]}")
        if wrong:
            raise AttestationError(f"{self.target.id}: {'; '.join(wrong)}")


def python_program(target: PythonTarget, cache: Path, tool: tuple[str, ...] = ()) -> PythonProgram:
    """The program of `target`; its source is written to `cache`, where Triton looks it up. Raises BuildError."""
    kernel = target.kernel
    text = edited_source(kernel)
    digest = source_digest(text, kernel.source.parent)
    folder = cached_file(cache, f"python-{digest[:32]}", kernel.source.name, text)
    spec = Spec(
        source=str(folder),
        folder=str(kernel.source.resolve().parent),
        op=kernel.op,
        entry=kernel.entry or kernel.op,
        framework=kernel.framework,
        device=target.device,
        options=dict(kernel.options),
        environment={
            "TRITON_CACHE_DIR": os.environ.get("TRITON_CACHE_DIR", str(cache / "triton")),
            "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(cache / "inductor")),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            # They are larger than any file that a worker may write, and would be left behind half written.
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
            # Under a tool every tensor is an allocation of its own, whose very end it watches.
            **({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if tool else {}),
        },
        margin=0 if tool else MARGIN_BYTES,
    )
    return PythonProgram(target, spec, digest, tool)
