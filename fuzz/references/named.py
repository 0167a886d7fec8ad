"""Arguments of command lines: a function, `refs.py:rms_norm`, with the op read from it; and extents, `h=4`."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.core.base.errors import UsageError, error_line
from fuzz.references.parameters import titled

if TYPE_CHECKING:
    from fuzz.references.derive import Derived


def function_at(place: str) -> Callable[..., Any]:
    """Return the function "FILE.py:NAME". The file is run as if imported from its folder. Raises UsageError."""
    file, _, name = place.rpartition(":")
    path = Path(file)
    if not name or path.suffix != ".py":
        raise UsageError(f"{place}: write FILE.py:FUNCTION, such as refs.py:rms_norm")
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    private = "_kernelfuzz_reference_" + hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(private, path)
    assert spec is not None, "the name of a file that Python takes"
    assert spec.loader is not None
    module = sys.modules[private] = importlib.util.module_from_spec(spec)
    try:
        with first_in_path(path.resolve().parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path}: {error_line(error)}") from error
    found = getattr(module, name, None)
    if not callable(found):
        known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise UsageError(f"{path} has no function {name!r}; it has {', '.join(known) or 'none'}")
    function: Callable[..., Any] = found
    return function


@contextmanager
def first_in_path(folder: Path) -> Iterator[None]:
    """Import modules, inside the block, from a folder first, as a program in that folder does."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def derived_at(place: str, shapes: str = "", **known: Any) -> Derived:
    """Return the op read from a function, which is run and traced. Raises UsageError."""
    function = function_at(place)
    try:
        from fuzz.references.derive import derive
        from fuzz.references.dims import UnreadableError, UnsaidError

        return derive(function, shapes or None, **known)
    except ImportError as error:
        raise UsageError(f"{place}: it is read with torch: {error_line(error)}") from error
    except UnsaidError as error:
        raise UsageError(unread(error, function)) from error
    except UnreadableError as error:
        raise UsageError(str(error)) from error


def unread(error: BaseException, function: Callable[..., Any]) -> str:
    """Return an error text with its reason, and with the command line that states dimensions if they are missing."""
    from fuzz.references.dims import UnsaidError

    tensors = [
        each.name for each in inspect.signature(function).parameters.values() if each.default in (each.empty, None)
    ]
    typed = f"--shapes '{', '.join(f'{name}=b n' for name in tensors)}', with a word for each of them"
    if isinstance(error, UnsaidError):
        return f"{titled(function)} cannot be read: say what dimensions its tensors have: {typed}"
    return f"{error}; if dimensions are not clear: {typed}"


def sizes_of(words: Sequence[str]) -> Mapping[str, int]:
    """Return the extents in words such as "h=4". Raises UsageError."""
    found = dict[str, int]()
    for word in words:
        name, _, size = word.partition("=")
        if not size.isdigit() or not int(size):
            raise UsageError(f"{word}: write a dimension and how many elements it has, such as h=4")
        found[name.strip()] = int(size)
    return found
