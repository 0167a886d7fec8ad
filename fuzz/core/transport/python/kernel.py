"""The kernel in its worker: its description, its module, how it is called, and how a call ended."""

from __future__ import annotations

import dis
import hashlib
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import oracles
from fuzz.core.base.outcome import LeftOutError, MisuseError
from fuzz.core.transport.python.foreign import maker, opened
from fuzz.core.transport.python.module import loaded
from oracles.operand import AXIS

Way = Callable[[partial[Any]], Any]
"""A function that calls the function it is given, and returns the result or raises."""
MARGIN_BYTES = 16 * 1024
"""The number of bytes that are poisoned and checked on every side of a tensor without an inaccessible page. An access
that is wrong by a row still lands in them."""
_WORDS_LIMIT = 1500
"""The largest number of characters of an error message that are kept, since compilers repeat the whole source."""
_REASON_LIMIT = 200
"""The largest number of characters of the reason why nothing can be built. It is printed in one line of a table."""


@dataclass(frozen=True)
class Spec:
    """The kernel to run, and where to run it."""

    source: str
    """The file to run: a copy of the kernel's source, with its edits. Beside it are copies of the files in the source's
    folder as they were when the session began."""
    folder: str
    """The folder of the kernel's own source. The module's `__file__` is there, and not everything that it imports from
    there is copied."""
    op: str
    entry: str
    framework: str
    device: str
    options: Mapping[str, str | int | float | bool]
    environment: Mapping[str, str]
    """Environment variables: those of frameworks, folders for compiled programs, and those that the kernel declares."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """The names of the op's tensors and parameters, by function parameters that have other names."""
    margin: int = MARGIN_BYTES
    variables: Sequence[str] = ()
    """The names of the environment variables that the kernel declares."""
    packages: Sequence[str] = ()
    """The packages that the kernel names."""
    siblings: Sequence[str] = ()
    """Modules beside the source that are imported as if its folder came first on the path."""
    outputs: Sequence[str] = ()
    """The outputs of the op that the kernel declares to have."""
    neutral: Mapping[str, float] = field(default_factory=dict)
    """The neutral values of the op's parameters, for cases that omit them."""
    tensors: int = 0
    """The largest number of tensors of a case of the op."""
    programs: str = ""
    """The file to which the keys of compiled programs are appended; '' for none."""
    arrays: str = ""
    """The dotted name of a function that makes the kernel's arrays, if they are another library's."""
    watcher: str = ""
    """The path of the library that records accesses to inaccessible pages. Without it an access ends the worker."""
    sanitizer: str = ""
    """The tool that watches the worker; '' for none."""
    keeps: Sequence[str] = ()
    """The kinds of changes to its process that the kernel declares."""
    choices: Sequence[int] = ()
    """For each autotuner of the kernel, the place of the configuration that it takes; the first where none is given."""

    @property
    def torch_device(self) -> str:
        return "cuda" if self.device == "cuda" else "cpu"

    @property
    def library(self) -> str:
        """The library whose arrays are in the memory of a case."""
        return "torch" if self.framework in ("torch", "triton") or self.device == "cuda" else "numpy"

    def encoded(self) -> str:
        return json.dumps(asdict(self))


def decoded(text: str) -> Spec:
    """Return the spec that `encoded` wrote."""
    return Spec(**json.loads(text))


def source_digest(texts: Mapping[str, str]) -> str:
    """Return a digest of the kernel's source and of all Python files in its folder. `texts` are by file name."""
    digest = hashlib.sha256()
    for name in sorted(texts):
        digest.update(name.encode() + b"\0" + texts[name].encode() + b"\0")
    return digest.hexdigest()


class KernelError(Exception):
    """A kernel that cannot be loaded. The message is complete."""


_NO_CUDA = (
    "CUDA_HOME environment variable is not set", "Torch not compiled with CUDA enabled", "Found no NVIDIA driver",
    "No CUDA GPUs are available",
)  # fmt: skip
"""The messages of torch if a source that needs CUDA is loaded on a machine without it."""


_NO_DRIVER = "0 active drivers"
"""The message of Triton if it finds no GPU."""


class NeedsCudaError(Exception):
    """A kernel that can only be loaded with CUDA. The message is complete."""


@dataclass(frozen=True)
class Raised:
    """A call that raised instead of returning."""

    rejected: bool
    """Whether the kernel itself raised ValueError or NotImplementedError, so that it does not take this input."""
    words: str
    built: bool = True
    """Whether torch.compile can build anything on this machine. If not, the kernel was not run."""
    misused: bool = False
    """Whether the kernel was called in a way that can never work. The words say what to write."""
    left_out: bool = False
    """Whether the kernel does not run such a call in the configuration that was chosen."""


def choosing(
    function: Callable[..., Any], choices: Sequence[int]
) -> tuple[Sequence[Any], Callable[[], AbstractContextManager[object]]]:
    """Return the Triton autotuners that a function can reach, and a function that makes a context in which they take
    these configurations."""
    if "triton" not in sys.modules:
        return (), nullcontext
    from fuzz.core.transport.python.tuning import chosen, tuners_of

    found = tuners_of(function)
    return found, partial(chosen, found, choices)


class LoadedKernel:
    """The entry function of a kernel's source."""

    def __init__(self, spec: Spec) -> None:
        source, self._folders = Path(spec.source), (spec.folder,)
        self._path = str(Path(spec.folder) / source.name)
        texts = {path.name: path.read_text(encoding="utf-8") for path in source.parent.glob("*.py")}
        self.digest = source_digest(texts)
        self._place: Callable[[], Any] = nullcontext
        if spec.device == "interpret":
            from fuzz.core.transport.python.stand_in import stand_in

            self._place = stand_in()
        try:
            with self._place():
                top = f"_of_{self.digest[:12]}"
                self.module = loaded(texts[source.name], source, Path(spec.folder), spec.siblings, top)
        except BaseException as error:
            said = f"{Path(spec.source).name}: {self._words(error)}"
            if spec.device != "cuda" and any(words in str(error) for words in (*_NO_CUDA, _NO_DRIVER)):
                raise NeedsCudaError(f"no CUDA here, which it needs to be loaded: {said}") from error
            raise KernelError(said) from error
        for name in spec.variables:
            wanted, found = spec.environment[name], os.environ.get(name)
            if found != wanted:
                said = f"it is declared with {name}={wanted!r}, and its source makes that {found!r}"
                raise KernelError(f"{Path(spec.source).name}: {said}")
        self._device, self._has_returned = spec.device, False
        """Whether a call has returned. Until then, an error for lack of CUDA is no failure; later it is, since a kernel
        may not choose its cases."""
        self._name = spec.entry
        self._entry: Callable[..., Any] = getattr(self.module, spec.entry, None)  # type: ignore[assignment]
        if not callable(self._entry):
            raise KernelError(f"{Path(spec.source).name}: it has no function {spec.entry!r}")
        parameters = inspect.signature(self._entry).parameters.values()
        self._takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        self._names = {spec.arguments.get(p.name, p.name) for p in parameters}
        self._own = {meant: name for name, meant in spec.arguments.items()}
        self._options = dict(spec.options)
        self._neutral = dict(spec.neutral)
        self._library = sys.modules.get(spec.library)
        try:
            self._made = maker(spec.arrays) if spec.arrays else None
        except (ImportError, AttributeError) as error:
            raise KernelError(f"arrays: {spec.arrays}: {error}") from error
        self.returns = [name for name in spec.outputs if not self.takes(name)]
        self.tuners, self._choosing = choosing(self._entry, spec.choices)

    def takes(self, name: str) -> bool:
        """Return whether the function has a parameter of this name. An output without a parameter is returned."""
        return self._takes_all or name in self._names

    def is_own(self, error: BaseException) -> bool:
        return has_own_frame(error, self._folders)

    def call(self, tensors: Mapping[str, Any], params: Mapping[str, float | int], way: Way | None = None) -> Any:
        """Return the function's result, or a `Raised` if it raised. `way` makes the call, if given."""
        # parameters that the function lacks have their neutral value, and the axis is the last one, as declared
        named, needless = {**self._neutral, **params}, {*self._neutral, AXIS}
        given = {name: value for name, value in named.items() if self.takes(name) or name not in needless}
        try:
            handed = tensors if self._made is None else {name: self._made(each) for name, each in tensors.items()}
            own = {self._own.get(name, name): each for name, each in {**handed, **given}.items()}
            # A way may call in another thread, which is not in this context, so the entry enters it by itself.
            enters = way is not None and self._device == "interpret"
            call = partial(self._place()(self._entry) if enters else self._entry, **own, **self._options)
            with self._choosing(), self._place():
                found = call() if way is None else way(call)
            self._has_returned = True
            return found if self._made is None else opened(found, self._library)
        except BaseException as error:  # any exception is an outcome of the kernel, even SystemExit
            if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
                raise
            if isinstance(error, LeftOutError):
                return Raised(rejected=False, words=str(error), left_out=True)
            if _is_of_compiler(error) and (missing := _builds_nothing()):
                return Raised(rejected=False, words=missing, built=False)
            words = self._words(error)
            if self._device != "cuda" and not self._has_returned and self._asks_for_cuda(error, words):
                return Raised(rejected=False, words=f"no CUDA here, which it needs: {words}", built=False)
            names = ", ".join((*tensors, *given, *self._options))
            wrapper = f"def {self._name}({names}): return mine({names})"
            if misuse := misuse_of(error, wrapper=wrapper, interpreter=_INTERPRETER):
                return Raised(rejected=False, words=misuse, misused=True)
            return Raised(is_rejection(error, self._folders), words)

    def _asks_for_cuda(self, error: BaseException, words: str) -> bool:
        """Whether the call ended for lack of CUDA: torch says so, or a statement in the kernel's own files."""
        stated = "cuda" in words.lower() and _is_stated(error, self._folders)
        return stated or any(each in str(error) for each in _NO_CUDA)

    def _words(self, error: BaseException) -> str:
        """Return the error in one line, with the last line of the kernel's file that was reached."""
        from fuzz.core.transport.python.launch import LaunchError

        # Triton's interpreter wraps errors raised inside a program, and keeps only their repr.
        shown = error.__cause__ if type(error).__name__ == "InterpreterError" and error.__cause__ else error
        said = " ".join(str(shown).split())
        said = said if len(said) <= _WORDS_LIMIT else said[:_WORDS_LIMIT] + " ..."
        ours = isinstance(error, LaunchError)  # raised by lines of the engine
        lines = [frame for frame in _frames(error) if frame.filename == self._path and not ours]
        where = f" ({Path(self._path).name} line {lines[-1].lineno}: {lines[-1].line})" if lines else ""
        return f"{type(shown).__name__}{': ' if said else ''}{said}{where}"


_INTERPRETER = "declare it as PythonKernel(..., 'triton'), whose target triton@interpret has TRITON_INTERPRET=1"
_NOT_CALLED = re.compile(
    r"unexpected keyword|missing \d+ required|takes (no|\d+|from \d+) |positional-only|multiple values for"
)


def misuse_of(error: BaseException, *, wrapper: str, interpreter: str) -> str:
    """Return what to write instead, if a call made in this way can never work; else ''. Either its arguments do not fit
    the function, and a `wrapper` helps; or a Triton program finds no GPU, and needs an `interpreter`."""
    trace, said = error.__traceback__, " ".join(str(error).split())
    entered = trace is None or trace.tb_next is not None
    if isinstance(error, TypeError) and not entered and _NOT_CALLED.search(said):
        return f"it cannot be called by keyword: {said}; wrap it: {wrapper}"
    if isinstance(error, RuntimeError) and said.startswith(_NO_DRIVER):
        return f"Triton finds no GPU here: {interpreter}"
    return str(error) if isinstance(error, MisuseError) else ""


_COMPILER_ERRORS = {"CppCompileError", "InvalidCxxCompiler"}


def _is_of_compiler(error: BaseException) -> bool:
    """Whether a compiler could not build the code that torch.compile had generated."""
    names, cause = set[str](), error
    while cause is not None and type(cause).__name__ not in names:
        names.add(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    return not names.isdisjoint(_COMPILER_ERRORS)


@lru_cache(maxsize=1)
def _builds_nothing() -> str:
    """Return why torch.compile cannot build even x + 1, or '' if it can. If not, its compiler is broken or missing, and
    no kernel is to blame."""
    import torch

    try:
        torch.compile(lambda x: x + 1.0)(torch.ones(1024))
    except Exception as error:
        compiler = torch._inductor.config.cpp.cxx[-1] or "the C++ compiler"
        lines = [line for line in str(error).splitlines() if "error" in line.lower() and not line.startswith("Command")]
        said = f": {lines[-1].strip()}" if lines else ""
        return (
            f"torch.compile cannot build x + 1 here either ({compiler}, {type(error).__name__}{said[:_REASON_LIMIT]})"
        )
    return ""


_REJECTIONS = (ValueError, NotImplementedError)
_INSTALLED = {"site-packages", "dist-packages"}
_OURS = [Path(__file__).resolve().parents[1], Path(oracles.__file__).resolve().parent]
"""The folders of the engine's own code that takes part in a call. They may lie below the folder of a kernel."""
_RAISES = dis.opmap["RAISE_VARARGS"]


def is_rejection(error: BaseException, own: Collection[str]) -> bool:
    """Return whether `error` is a ValueError or NotImplementedError from a `raise` statement in the kernel's own files.
    `own` lists files and folders; packages installed below them do not count. An exception raised by a library, in
    Python or in machine code, is a crash of the kernel that called it."""
    return isinstance(error, _REJECTIONS) and _is_stated(error, own)


def _is_stated(error: BaseException, own: Collection[str]) -> bool:
    """Whether a `raise` or `assert` statement in the kernel's own files raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_lasti < 0:
        return False
    code = trace.tb_frame.f_code
    return _is_below(Path(code.co_filename).resolve(), own) and code.co_code[trace.tb_lasti] == _RAISES


def has_own_frame(error: BaseException, own: Collection[str]) -> bool:
    """Return whether the error was raised while a function in the kernel's own files and folders was running."""
    paths = [Path(frame.filename).resolve() for frame in traceback.extract_tb(error.__traceback__)]
    return any(_is_below(path, own) and not any(map(path.is_relative_to, _OURS)) for path in paths)


def _is_below(path: Path, own: Collection[str]) -> bool:
    """Return whether the path is one of the files, or in one of the folders but in no package installed below them."""
    places = [Path(place).resolve() for place in own]
    below = [path.relative_to(place).parts for place in places if path.is_relative_to(place)]
    return any(_INSTALLED.isdisjoint(parts) for parts in below)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of an error and of its causes, from the entry inwards."""
    found = list(traceback.extract_tb(error.__traceback__))
    return found + (_frames(error.__cause__) if error.__cause__ is not None else [])
