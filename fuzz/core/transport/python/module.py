"""The module of a kernel in its worker. It runs from copies of its source and neighbours that seem to be originals."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType


def loaded(text: str, copy: Path, home: Path, siblings: Collection[str], top: str) -> ModuleType:
    """Return the module with source `text`, from the file `copy`. Kernels of one file share it, as if they imported it.
    It belongs to a private package `top`, so it can import its neighbours relatively, and `siblings` by their names."""
    beside = _Beside(f"{top}.{home.name}", siblings, copy.parent, home)
    known = sys.modules.get(f"{beside.package}.{copy.stem}")
    if known is not None and known.__spec__ is not None and known.__spec__.origin == str(copy):
        return known
    for name, places in ((top, [home.parent]), (beside.package, [copy.parent, home])):
        start, folders = places[-1] / "__init__.py", [*map(str, places)]
        package = importlib.util.spec_from_file_location(name, start, submodule_search_locations=folders)
        assert package is not None
        sys.modules[name] = importlib.util.module_from_spec(package)  # it is not run
    sys.meta_path.insert(0, beside)
    loading = importlib.util.spec_from_file_location(f"{beside.package}.{copy.stem}", copy)
    assert loading is not None
    module = importlib.util.module_from_spec(loading)
    sys.modules[module.__name__] = module
    try:
        _run(text, module, home / copy.name)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _run(text: str, module: ModuleType, path: Path) -> None:
    """Run the module's text as if it were the file `path`, in the frames of its functions, too: a solution may look for
    a judge's folder there. The lines stay those of `text` if the file is another one or changes."""
    module.__file__ = name = str(path)
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), module.__dict__)


@dataclass(frozen=True)
class _Beside:
    """Finds the modules beside a kernel, and no others in its folder, where a file may have the name of a library."""

    package: str
    siblings: Collection[str]
    copies: Path
    home: Path

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module, or None if it is not beside the kernel. Python calls this at each import."""
        if name not in self.siblings and name.rpartition(".")[0] != self.package:
            return None
        found = PathFinder.find_spec(name, [str(self.copies), str(self.home)])
        if found is not None and found.origin is not None and Path(found.origin).parent == self.copies:
            found.loader = _Copy(name, found.origin, self.home)
        return found


class _Copy(SourceFileLoader):
    """Loads a copied module as if it were the original, so that it can read files beside the original."""

    def __init__(self, name: str, path: str, home: Path) -> None:
        super().__init__(name, path)
        self._home = home

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        _run(self.get_source(module.__name__) or "", module, self._home / Path(self.path).name)
