"""What can be begun before a problem is read: the processes that workers are forked from import torch meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fuzz.core.adapters.build import Builder, CacheError
from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.core.adapters.python import imports_of, sandbox_at
from fuzz.core.transport.fork_server import fork_server
from fuzz.core.transport.sandbox import unusable
from fuzz.tasks.readers.source import ProblemError, files_in, framework_in, kernel_name, name_in

_MOST = 2
"""With more solutions there are more processes than most machines have processors: they begin one after the other."""


@contextmanager
def begun(solutions: tuple[str, ...], against: str, output: Path, *, untrusted: bool) -> Iterator[None]:
    """Begin what workers of solutions are forked from. A sandbox shows it the folder that a solution will be written
    to, which is made; one that nothing was written to is removed in the end. Raises ProblemError for a solution that is
    none, before seconds are spent on the problem."""
    made, files = list[Path](), [framework_in(words) for words in files_in(solutions)]
    with suppress(ProblemError, CacheError, OSError):  # whoever reads it says what is wrong
        folder, taken = output / name_in(against), list[str]()
        for name, framework in files if len(files) <= _MOST and not (untrusted and unusable()) else ():
            taken.append(kernel_name(name, taken))
            own, builder = folder / taken[-1], Builder()
            made += [each for each in (output, folder, own) if untrusted and not each.exists()]
            if untrusted:
                own.mkdir(parents=True, exist_ok=True)
            sandbox = sandbox_at(own, builder) if untrusted else None
            interpreted = framework == "triton" and no_cuda_device() is not None
            fork_server(imports_of(framework, untrusted=untrusted), interpreted, sandbox).begin()
    try:
        yield
    finally:
        for each in reversed(made):
            with suppress(OSError):  # something was written to it
                each.rmdir()
