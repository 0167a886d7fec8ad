"""What workers are built of: sources with their edits, a cache by content, compilers that can be stopped."""

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
from pathlib import Path

from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel

NATIVE = Path(__file__).resolve().parents[1] / "transport" / "native"
"""The folder of the worker's C sources and of `kernelfuzz.h`."""

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


_ERROR = re.compile(r"error:|undefined reference|multiple definition", re.IGNORECASE)
_OFFSET = re.compile(r":\(\.\S+?\)")
"""Where a linker's error is in the code, which depends on flags."""
_OBJECT = re.compile(r"\S*/cc\w{6}\.o\b:? ?")
"""An object of the compiler's own."""


class BuildError(UsageError):
    """A kernel that does not compile or cannot be loaded. The message is complete: print it as it is."""

    @property
    def reason(self) -> str:
        """The message in one line: of a compiler's, the first that is an error."""
        first, *more = str(self).splitlines()
        wrong = next((line.strip() for line in more if _ERROR.search(line)), "")
        return f"it does not compile: {_OFFSET.sub('', wrong)}" if wrong else first


class CacheError(UsageError):
    """A cache that cannot be used: nothing can be built."""


def cache_directory() -> Path:
    """$KERNELFUZZ_CACHE, else $XDG_CACHE_HOME/kernelfuzz, else ~/.cache/kernelfuzz."""
    own = os.environ.get("KERNELFUZZ_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelfuzz"


class Builder:
    """Builds what workers are started from, into `cache`. Safe to use from many threads, and while other processes
    use the same cache.

    `tool` is a command that workers of sanitizable targets run under.
    """

    def __init__(self, cache: Path | None = None, jobs: int | None = None, tool: tuple[str, ...] = ()) -> None:
        self.cache = cache or cache_directory()
        self.tool = tool
        self._compiling = threading.Semaphore(jobs or os.cpu_count() or 1)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def stop(self) -> None:
        """Kill every compiler, from any thread; builds that are waiting raise BuildError."""
        with self._lock:
            self._stopped = True
            for compiler in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(compiler.pid, signal.SIGKILL)

    def compiled(self, name: str, commands: Callable[[Path], Sequence[str]]) -> Path:
        """The file of that name that `commands`, given a path to write to, compiles; made unless the cache has it."""

        def make(output: Path) -> None:
            with self._compiling:
                self._compile(commands(output), output.parent)

        return self._cached(self.cache / name, make)

    def text(self, folder: str, name: str, text: str) -> Path:
        """A file of that text in `folder` of the cache."""
        return self._cached(self.cache / folder / name, lambda output: output.write_text(text, encoding="utf-8"))

    def _compile(self, command: Sequence[str], scratch: Path) -> None:
        """Run a compiler. It leads a process group, so that a kill reaches what it has started."""
        with self._lock:
            if self._stopped:
                raise BuildError("the build was stopped")
            pipe = subprocess.PIPE
            compiler = subprocess.Popen(
                command, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True
            )
            self._running.add(compiler)
        try:
            _, said = compiler.communicate()
        finally:
            with self._lock:
                self._running.discard(compiler)
        if compiler.returncode != 0:
            text = f"compiler failed with exit code {compiler.returncode}:\n$ {shlex.join(command)}\n{said}"
            # What has another name every time, and is gone by now, would make two of one error.
            raise BuildError(_OBJECT.sub("", text).replace(f"{scratch}/", ""))

    def _cached(self, path: Path, make: Callable[[Path], object]) -> Path:
        """The file, made unless it is there. It appears by rename, so that nobody ever sees a half-written one."""
        with self._locks[str(path)]:
            if path.exists():
                return path
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=self.cache) as scratch:
                    output = Path(scratch) / path.name
                    make(output)
                    output.replace(path)
            except OSError as error:
                why = error.strerror or error
                raise CacheError(f"cannot write the build cache {self.cache}: {why} (set KERNELFUZZ_CACHE)") from error
        return path


def edited_source(kernel: Kernel) -> str:
    """The kernel's source text with its edits applied. Raises BuildError unless each edit fits exactly once."""
    try:
        text = kernel.source.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is no text: {error}"
        raise BuildError(f"{kernel.name}: cannot read {kernel.source}: {why}") from error
    for old, new in kernel.edits:
        found = text.count(old)
        if found != 1:
            raise BuildError(f"{kernel.name}: the edit {old!r} fits {found} times in {kernel.source}, not once")
        text = text.replace(old, new)
    return text


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
        texts[path.resolve()] = path.read_text(errors="replace")
        waiting += [(inner, path.parent) for inner in _INCLUDE.findall(texts[path.resolve()])]
    return texts


def digest_of(parts: Iterable[object]) -> str:
    """Of everything that decides what is built."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()
