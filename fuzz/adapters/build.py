"""Builds worker executables on demand, into a cache keyed by everything that decides their code."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.adapters.c_target import CTarget
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel

NATIVE = Path(__file__).resolve().parents[1] / "transport" / "native"
"""C sources of the worker, and `kernelfuzz.h`."""

WORKER_FLAGS = ("-O2", "-std=gnu11")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class BuildError(UsageError):
    """A kernel that does not compile, or a cache that cannot be used. The message is complete: print it as it is."""


@dataclass(frozen=True)
class Binary:
    """A worker executable with its kernel linked in."""

    path: Path
    digest: str
    """of sources, headers, flags and compiler; also compiled into the executable."""


def cache_directory() -> Path:
    """$KERNELFUZZ_CACHE, else $XDG_CACHE_HOME/kernelfuzz, else ~/.cache/kernelfuzz."""
    own = os.environ.get("KERNELFUZZ_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelfuzz"


class Builder:
    """Builds targets. Safe to use from many threads, and beside other processes with the same cache."""

    def __init__(self, cache: Path | None = None, jobs: int | None = None) -> None:
        self.cache = cache or cache_directory()
        self._compiling = threading.Semaphore(jobs or os.cpu_count() or 1)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._compilers = Compilers()

    def stop(self) -> None:
        """Kill every compiler; builds that are waiting raise BuildError."""
        self._compilers.stop()

    def build(self, target: CTarget) -> Binary:
        """The executable of `target`, compiled unless the cache has it. Raises BuildError."""
        worker = self._worker_parts(target)
        source = edited_source(target.kernel)
        described = [target.kernel.op, target.flags, target.emulated, target.compiler_tool.version]
        digest = _digest([*described, worker.digest, source, *included(source, target.kernel.source.parent)])
        output = self._cached("worker", digest, lambda output: self._link(target, worker, source, digest, output))
        return Binary(output, digest)

    def _worker_parts(self, target: CTarget) -> Binary:
        """The worker without a kernel, one relocatable object per compiler and op."""
        sources = [path for path in sorted(NATIVE.glob("*.c")) if not path.name.startswith("op_")]
        sources.append(NATIVE / f"op_{target.kernel.op}.c")
        if not sources[-1].exists():
            raise BuildError(f"{target.kernel.name}: C kernels of the op {target.kernel.op!r} are not supported")
        tool = target.compiler_tool
        texts = [path.read_text() for path in [*sources, *sorted(NATIVE.glob("*.h"))]]
        digest = _digest([tool.command, tool.version, WORKER_FLAGS, *texts])
        command = [*tool.command, *WORKER_FLAGS, "-r", "-nostdlib", *map(str, sources)]
        return Binary(
            self._cached("parts", digest, lambda output: self._compilers.run([*command, "-o", str(output)])), digest
        )

    def _link(self, target: CTarget, worker: Binary, source: str, digest: str, output: Path) -> None:
        """Compiles the kernel's source text and links it to the worker."""
        kernel = target.kernel
        with tempfile.TemporaryDirectory(dir=self.cache) as scratch:
            path = kernel.source
            if kernel.edits:
                path = Path(scratch) / kernel.source.name
                path.write_text(source)
            identity = [f"-DKF_FLAGS={json.dumps(' '.join(target.flags))}", f"-DKF_DIGEST={json.dumps(digest)}"]
            identity += ["-include", str(NATIVE / "identity.h")]
            includes = ["-iquote", str(kernel.source.parent), f"-I{NATIVE}"]
            static = ["-static"] if target.emulated else []
            self._compilers.run([
                *target.compiler_tool.command, "-std=gnu11", *target.flags, *identity, *includes, str(path),
                str(worker.path), *static, "-lm", "-o", str(output),
            ])  # fmt: skip

    def _cached(self, kind: str, digest: str, make: Callable[[Path], None]) -> Path:
        """The file of that digest. It appears by rename, so that nobody ever sees a half-written one."""
        path = self.cache / f"{kind}-{digest[:32]}"
        with self._locks[digest]:
            if path.exists():
                return path
            try:
                self.cache.mkdir(parents=True, exist_ok=True)
                with self._compiling, tempfile.TemporaryDirectory(dir=self.cache) as scratch:
                    output = Path(scratch) / kind
                    make(output)
                    output.replace(path)
            except OSError as error:
                raise _unwritable(self.cache, error) from error
        return path


def cached_file(cache: Path, folder: str, name: str, text: str) -> Path:
    """A file of that text in `folder` of the cache. It appears by rename, as everything there."""
    path = cache / folder / name
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                written = Path(scratch) / name
                written.write_text(text, encoding="utf-8")
                written.replace(path)
    except OSError as error:
        raise _unwritable(cache, error) from error
    return path


def _unwritable(cache: Path, error: OSError) -> BuildError:
    return BuildError(f"cannot write the build cache {cache}: {error.strerror or error} (set KERNELFUZZ_CACHE)")


def edited_source(kernel: Kernel) -> str:
    """The kernel's source text with its edits applied. Raises BuildError unless each edit fits exactly once."""
    try:
        text = kernel.source.read_text()
    except OSError as error:
        raise BuildError(f"{kernel.name}: cannot read {kernel.source}: {error.strerror}") from error
    for old, new in kernel.edits:
        found = text.count(old)
        if found != 1:
            raise BuildError(f"{kernel.name}: the edit {old!r} fits {found} times in {kernel.source}, not once")
        text = text.replace(old, new)
    return text


def included(source: str, directory: Path) -> list[str]:
    """Texts of the files that `source` includes, in the order of their paths."""
    texts = included_files(source, directory)
    return [texts[path] for path in sorted(texts)]


def included_files(source: str, directory: Path) -> dict[Path, str]:
    """The files that `source` includes by quotes, from `directory` or the worker's, and what they include; with texts.

    Conditions are ignored: a file too many costs a needless build, a file too few would run stale code.
    """
    texts: dict[Path, str] = {}
    waiting = [(name, directory) for name in _INCLUDE.findall(source)]
    while waiting:
        name, near = waiting.pop()
        path = next((p for p in (near / name, directory / name, NATIVE / name) if p.is_file()), None)
        if path is None or path.resolve() in texts:
            continue
        texts[path.resolve()] = path.read_text()
        waiting += [(inner, path.parent) for inner in _INCLUDE.findall(texts[path.resolve()])]
    return texts


class Compilers:
    """Compilers that are running. Each leads a process group, so that a kill reaches what it has started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, command: Sequence[str]) -> None:
        """Compile. Raises BuildError with what the compiler says."""
        with self._lock:
            if self._stopped:
                raise BuildError("the build was stopped")
            pipe = subprocess.PIPE
            compiler = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
            self._running.add(compiler)
        try:
            _, said = compiler.communicate()
        finally:
            with self._lock:
                self._running.discard(compiler)
        if compiler.returncode != 0:
            raise BuildError(f"compiler failed with exit code {compiler.returncode}:\n$ {shlex.join(command)}\n{said}")

    def stop(self) -> None:
        """Kill them, from any thread; none is started any more."""
        with self._lock:
            self._stopped = True
            for compiler in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(compiler.pid, signal.SIGKILL)


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()
