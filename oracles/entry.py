"""The entry points of the command and of pytest's plugin. They are in this package, which nobody else has: another
distribution has a package called `fuzz` as well, and which of the two is imported depends on the order of installing,
and on the path. Nothing else here knows of `fuzz`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

_OURS = "from fuzz.core.base import __version__"
"""A line of our own `fuzz/__init__.py`. Files of both packages may lie in one folder, so that others prove nothing."""
_USAGE = 4
"""The exit code of a mistake that one line explains, as `fuzz.core.base.exits` has it."""


def _foreign() -> str:
    """Return a line that says what to do if `import fuzz` finds a package that is not ours, or ''. Nothing of that
    package is run."""
    spec = find_spec("fuzz")
    if spec is None:
        return "kernelfuzz: `import fuzz` finds nothing: pip install --force-reinstall kernelfuzz"
    if spec.origin is not None:
        try:
            text = Path(spec.origin).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""  # it cannot be told
        if _OURS in text:
            return ""
    where = spec.origin or next(iter(spec.submodule_search_locations or ()), "another package")
    try:
        distribution("fuzz")
    except PackageNotFoundError:
        return f"kernelfuzz: `import fuzz` finds {where}, which is not ours: rename it, or take its folder off the path"
    again = "pip uninstall fuzz, then pip install --force-reinstall kernelfuzz"
    return f"kernelfuzz: `import fuzz` finds {where}, which is another distribution's: {again}"


FOREIGN = _foreign()
"""What is wrong with the package that `import fuzz` finds; '' if it is ours."""
pytest_plugins = [] if FOREIGN else ["fuzz.pytest_plugin"]


def pytest_report_header() -> list[str]:
    """Return the line for the head of pytest's report. It is no error: the suite may not use kernelfuzz at all."""
    return [FOREIGN] if FOREIGN else []


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    if FOREIGN:
        print(FOREIGN, file=sys.stderr)
        sys.exit(_USAGE)
    import_module("fuzz.cli").main()
