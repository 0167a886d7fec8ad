"""The adapter of kernels written in Python: where they run, and what must be installed for that."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.core.adapters.python_kernel import Framework, PythonKernel
from fuzz.core.adapters.signature import belonging
from fuzz.core.adapters.target import Adapter, Target, TargetId
from fuzz.core.adapters.toolchain import Host, Tool, program
from fuzz.core.base.kernel import Kernel

if TYPE_CHECKING:
    from fuzz.core.adapters.build import Builder
    from fuzz.core.adapters.export import Script
    from fuzz.core.adapters.python_program import PythonProgram

_NO_TORCH = "torch is not installed, which has the tensors on a GPU: pip install torch"


@dataclass(frozen=True)
class PythonAdapter(Adapter):
    """The adapter of kernels of one framework."""

    framework: Framework
    suffix = ".py"
    kernel_per_source = False

    def targets(self, kernel: Kernel, host: Host) -> Iterator[Target]:
        places = {place.device: place for place in self.framework.places}
        for device in PythonKernel.of(kernel).devices or places:
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
        kernel = PythonKernel.of(target.kernel)
        tunes = kernel.tuned is None and "torch" in self.framework.packages and self._names_autotuners(kernel)
        if not (kernel.configs or tunes or kernel.tuned):
            yield target
            return
        from fuzz.core.adapters.build import Builder
        from fuzz.core.adapters.configured import each_of, told_by_worker

        there = tunes and target.unavailable() is None
        tuned = told_by_worker(self.program(target, Builder())) if there else kernel.tuned or ()
        yield from each_of(target, kernel.configurations, tuned)

    def _names_autotuners(self, kernel: Kernel) -> bool:
        from fuzz.core.adapters.build import BuildError

        with suppress(BuildError, OSError):
            # Of a copy: the kernel's files count as they are when it is built, which is later.
            return any("autotune" in text for text in self.files(replace(kernel)).values())
        return False

    def unavailable(self, target: Target) -> str | None:
        missing = self.missing_package()
        if missing is None and target.name.site == "cuda":
            missing = _no_cuda()
        lacking = [each for each in PythonKernel.of(target.kernel).imported if not _is_installed(each)]
        missing = missing or (f"{lacking[0]} is not installed" if lacking else None)
        missing = missing or (_no_tool(target.sanitizer) if target.sanitizer else None)
        return missing or next((tool.missing for tool in self.tools(target) if tool.missing), None)

    def tools(self, target: Target) -> tuple[Tool, ...]:
        """Return the programs that the kernel needs; none if packages are missing, or on a GPU, which needs none."""
        if target.name.site == "cuda" or self.missing_package() is not None:
            return ()
        return tuple(program(name) for name in PythonKernel.of(target.kernel).programs)

    def program(self, target: Target, builder: Builder) -> PythonProgram:
        from fuzz.core.adapters.python_program import program_for

        [mode] = [place.mode for place in self.framework.places if place.device == target.name.site]
        return program_for(target, builder, mode)

    def share(self, target: Target, builder: Builder) -> None:
        if not target.sanitizer and self.unavailable(target) is None:
            from fuzz.core.adapters.python_program import begin_shared

            begin_shared(target, self.framework, builder)

    def export(self, target: Target, script: Script, about: Sequence[str], name: str) -> str:
        from fuzz.core.adapters.export import python_script

        kernel = PythonKernel.of(target.kernel)
        said = [*about, "", f"It exits with 1 where the kernel fails:  python {shlex.quote(name)}"]
        place, maker = target.name.site, kernel.arrays or self.framework.makers.get(target.name.site, "")
        library = "torch" if place == "cuda" or "torch" in self.framework.packages else "numpy"
        own = {meant: name for name, meant in dict(kernel.arguments).items()}
        options = dict((*kernel.options, *target.configuration.options))
        return python_script(kernel, kernel.function, options, place, script, said, library, maker, own)

    def definition(self, kernel: Kernel) -> str:
        return PythonKernel.of(kernel).shown or f"def {PythonKernel.of(kernel).function}"

    def files(self, kernel: Kernel) -> Mapping[Path, str]:
        """Return the kernel's files, with files that belong to it and modules in its folder that its source names."""
        from fuzz.core.adapters.build import edited_source

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


def _no_cuda() -> str | None:
    from fuzz.core.adapters.cuda import no_cuda_device

    return no_cuda_device() or (None if _is_installed("torch") else _NO_TORCH)


def _no_tool(sanitizer: str) -> str | None:
    from fuzz.core.adapters.cuda import MISSING, program_of

    return MISSING if program_of(sanitizer) is None else None


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module made by hand has no spec
        return True
