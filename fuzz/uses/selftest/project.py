"""A copy of somebody's project, in which their tests are run: their own tree is never written to."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fuzz.base.errors import UsageError

_SKIPPED = (
    ".git", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache",
    ".hypothesis", ".tox", "*.pyc",
)  # fmt: skip
"""What no test reads, and what would be in the way of what is changed."""
_TAIL = 20
"""The number of lines that are shown of a command that fails."""


@dataclass(frozen=True)
class Run:
    """How the command ended."""

    code: int | None
    """None: it ran out of its time."""
    seconds: float
    said: str
    """The end of what it printed."""

    @property
    def passed(self) -> bool:
        return self.code == 0


@dataclass(frozen=True)
class Project:
    """The copy."""

    origin: Path
    root: Path
    command: str

    def run(self, limit: float) -> Run:
        """Run the command in the copy, for so many seconds at most. Modules of the copy come before those that are
        installed."""
        paths = [str(self.root / "src"), str(self.root), os.environ.get("PYTHONPATH", "")]
        variables = {
            **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        began = time.monotonic()
        with tempfile.TemporaryFile("w+b") as said:
            process = subprocess.Popen(
                self.command, shell=True, cwd=self.root, env=variables, stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                with suppress(ProcessLookupError):  # what it left running, too
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").splitlines()
        return Run(code, time.monotonic() - began, "\n".join(lines[-_TAIL:]))

    @contextmanager
    def changed(self, source: Path, text: str) -> Iterator[None]:
        """While entered, that source has another text in the copy."""
        path = self.root / source.resolve().relative_to(self.origin)
        before = path.read_bytes()
        path.write_text(text, encoding="utf-8")
        try:
            yield
        finally:
            path.write_bytes(before)

    def has(self, source: Path) -> bool:
        """Whether that source is one of its files."""
        return source.resolve().is_relative_to(self.origin)


@contextmanager
def copied(folder: Path, command: str) -> Iterator[Project]:
    """A copy of the project, gone in the end. Raises UsageError where there is no such folder."""
    origin = folder.resolve()
    if not origin.is_dir():
        raise UsageError(f"--project {folder}: is not a folder")
    with tempfile.TemporaryDirectory(prefix="kernelfuzz-against-") as place:
        root = Path(place) / origin.name
        shutil.copytree(origin, root, symlinks=True, ignore=shutil.ignore_patterns(*_SKIPPED))
        yield Project(origin, root, command)
