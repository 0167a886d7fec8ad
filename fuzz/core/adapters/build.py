"""How workers are built: sources with their edits, a cache by content, and compilers that can be stopped."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from fuzz.core.base.errors import UsageError
from fuzz.core.base.files import set_aside, write_whole
from fuzz.core.base.kernel import Kernel

NATIVE = Path(__file__).resolve().parents[1] / "transport" / "native"
"""The folder with the worker's C sources and `kernelfuzz.h`."""

COPIES = "pack"
"""The folder, below the build folder, into which a kernel's files are copied with their full paths."""

_INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


_ERROR = re.compile(r"error:|undefined reference|multiple definition|cannot find ", re.IGNORECASE)
NOTE = "kernelfuzz: "
"""The start of a line that is added to a compiler's message."""
_OFFSET = re.compile(r":\(\.\S+?\)")
"""A pattern for the offset in a section in a linker's message. The offset depends on flags."""
_OBJECT = re.compile(r"\S*/cc\w{6}\.o\b:? ?")
"""A pattern for a temporary object file in a compiler's message."""


_PATIENCE_S = 60.0
"""The seconds to wait for another process that makes the same file. That process may have been suspended."""


class BuildError(UsageError):
    """A kernel that does not compile or cannot be loaded. The message is complete and can be printed as it is."""

    @property
    def reason(self) -> str:
        """The message in one line. For a compiler's message it is the first error."""
        first, *more = str(self).splitlines()
        wrong = next((line.strip() for line in more if _ERROR.search(line)), "")
        return f"it does not compile: {_OFFSET.sub('', wrong)}" if wrong else first

    def noted(self, pattern: str, note: str) -> BuildError:
        """Return this error with the note as its last line, if one of the compiler's errors matches `pattern`."""
        speaks = any(_ERROR.search(line) and re.search(pattern, line) for line in str(self).splitlines())
        return BuildError(f"{str(self).rstrip()}\n{NOTE}{note}") if speaks else self


class CacheError(UsageError):
    """A cache that cannot be used, so that nothing can be built."""


def cache_directory() -> Path:
    """Return $KERNELFUZZ_CACHE, else $XDG_CACHE_HOME/kernelfuzz, else ~/.cache/kernelfuzz."""
    own = os.environ.get("KERNELFUZZ_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelfuzz"


class Builder:
    """Builds the programs of workers, and keeps them in the folder `cache`. It can be used from many threads, and while
    other processes use the same cache. A file of the cache is used only if its content is what was put there. Workers
    append the keys of programs that they compile to the file `programs`."""

    def __init__(self, cache: Path | None = None, jobs: int | None = None, programs: str = "") -> None:
        self.cache = cache or cache_directory()
        self.programs = programs
        self.notices: list[str] = []
        """One line for each damaged file of the cache that was built again."""
        self._compiling = threading.Semaphore(jobs or os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def stop(self) -> None:
        """Kill every compiler. May be called from any thread. Builds that are waiting raise BuildError."""
        with self._lock:
            self._stopped = True
            for compiler in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(compiler.pid, signal.SIGKILL)

    def compiled(self, name: str, commands: Callable[[Path], Iterable[Sequence[str]]]) -> Path:
        """Return the file `name`, built by `commands(path)` unless the cache has it."""

        path = self.cache / name
        seal = path.with_name(f"{name}.sha256")

        def make(output: Path) -> None:
            with self._compiling:
                for command in commands(output):
                    self._compile(command, output.parent)
            # the seal is checked first, since a file without one was never finished
            write_whole(seal, hashlib.sha256(output.read_bytes()).hexdigest())

        def is_whole() -> bool:
            return seal.read_text(encoding="utf-8") == hashlib.sha256(path.read_bytes()).hexdigest()

        return self._cached(path, make, is_whole)

    def text(self, folder: str, name: str, text: str) -> Path:
        """Return a file with this text in `folder` of the cache."""
        path = self.cache / folder / name
        return self._cached(
            path,
            lambda output: output.write_text(text, encoding="utf-8"),
            lambda: path.read_bytes() == text.encode("utf-8"),
        )

    def _compile(self, command: Sequence[str], scratch: Path) -> None:
        """Run a compiler in its own process group, so that killing the group also kills its children. In its messages,
        paths of copies below `scratch` are replaced by those of the originals. Raise BuildError if it fails."""
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
            # temporary names differ each time, and would make one error look like two
            raise BuildError(_OBJECT.sub("", text.replace(str(scratch / COPIES), "")).replace(f"{scratch}/", ""))

    def _cached(self, path: Path, make: Callable[[Path], object], is_whole: Callable[[], bool]) -> Path:
        """Return the file, made unless it exists. It appears by rename, so nobody ever sees a half-written file."""
        try:
            if path.exists() and _holds(is_whole):
                return path
            with self._alone(path):
                if path.exists():
                    if _holds(is_whole):
                        return path
                    self.notices.append(f"{path}: damaged; it is kept as {set_aside(path).name}, and made anew")
                with tempfile.TemporaryDirectory(dir=self.cache) as scratch:
                    output = Path(scratch) / path.name
                    make(output)
                    output.replace(path)
        except OSError as error:
            why = error.strerror or error
            raise CacheError(
                f"cannot write the build cache {self.cache}: {why} (set KERNELFUZZ_CACHE, or --cache)"
            ) from error
        return path

    @contextlib.contextmanager
    def _alone(self, path: Path) -> Iterator[None]:
        """Hold the lock of a file, so that no other thread or process makes it at the same time. The lock only saves
        work: equal sources give equal files, and each appears by rename."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f"{path.name}.lock")
        deadline = time.monotonic() + _PATIENCE_S
        with lock.open("w") as held:
            while not _is_locked(held.fileno()) and not self._stopped and time.monotonic() < deadline:
                time.sleep(0.01)
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
                fcntl.flock(held, fcntl.LOCK_UN)  # closing is not enough, since a process forked meanwhile holds it too


def _is_locked(descriptor: int) -> bool:
    """Try to take the lock without waiting, and return whether it was taken."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holds(is_whole: Callable[[], bool]) -> bool:
    try:
        return is_whole()
    except (OSError, UnicodeDecodeError):  # a folder in place of the file, or no seal
        return False


def machine(arch: str) -> str:
    """Return the flag that tells the worker's C code which architecture's header to include."""
    return f'-DKF_MACHINE="{arch}.h"'


def edited_sources(kernel: Kernel) -> dict[Path, str]:
    """Return the texts of the kernel's edited sources, by path. Raise BuildError unless each edit fits exactly once."""
    texts = {path: text_of(kernel, path) for path in kernel.written}
    for old, new in kernel.edits:
        found = sum(text.count(old) for text in texts.values())
        if found != 1:
            where = " and ".join(map(str, texts))
            raise BuildError(f"{kernel.name}: the edit {old!r} fits {found} times in {where}, not once")
        texts = {path: text.replace(old, new) for path, text in texts.items()}
    return texts


def edited_source(kernel: Kernel) -> str:
    """Return the edited text of the kernel's file `source` alone. Raise BuildError."""
    return edited_sources(kernel)[kernel.source]


def text_of(kernel: Kernel, path: Path) -> str:
    """Return the text of a file of the kernel, as it was when first read. Raise BuildError if it cannot be read."""
    known = kernel.texts.get(path)
    if known is not None:
        return known
    try:
        return kernel.texts.setdefault(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BuildError(f"{kernel.name}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BuildError(f"{kernel.name}: cannot read {path}: it is not UTF-8 text") from error


def included_files(kernel: Kernel, source: Path, text: str, folders: Sequence[Path] = ()) -> dict[Path, str]:
    """Return the files that a source includes, directly and indirectly, with their texts. Files in quotes are looked up
    in the source's folder and the worker's, others in `folders`. Conditions are ignored: an extra file costs a needless
    build, but a missing one would run stale code."""
    texts: dict[Path, str] = {}
    directory = plain_path(source.parent)
    waiting = [(name, directory) for name in _INCLUDE.findall(text)]
    while waiting:
        (quoted, name), near = waiting.pop()
        own = (near, directory) if quoted else ()
        places = [plain_path(place / (quoted or name)) for place in (*own, *folders, *((NATIVE,) if quoted else ()))]
        path = next((place for place in places if place in kernel.texts or place.is_file()), None)
        if path is None or path in texts:
            continue
        texts[path] = text_of(kernel, path)
        waiting += [(inner, path.parent) for inner in _INCLUDE.findall(texts[path])]
    return texts


def plain_path(path: Path) -> Path:
    """Return the absolute path without '..'. Symbolic links are not followed, since a link has other neighbours."""
    return Path(os.path.normpath(path.absolute()))


def digest_of(parts: Iterable[object]) -> str:
    """Return the digest of all parts that decide what is built."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()
