"""A disk that is full when a test says so."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from fuzz.tests.common.running import Running


class SmallDisk:
    """`folder`/state on a tmpfs, in a mount namespace of its own, for which nobody need be root.

    It is large enough for all that a quick machine saves meanwhile: it is full when a test says so, and then only.

    Where the machine allows no such namespaces, a limit on the size of files takes its place: what grows fails too.
    """

    def __init__(self, folder: Path, size: str = "64m") -> None:
        self._folder = folder
        (folder / "state").mkdir()
        mount = f"mount -t tmpfs -o size={size} tmpfs state && echo mounted && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        self.mounted = self._holder.stdout.readline() == "mounted\n"

    @property
    def folder(self) -> Path:
        """Where this process sees what a nightly in there sees as its current folder."""
        return Path(f"/proc/{self._holder.pid}/root{self._folder}") if self.mounted else self._folder

    def start(self, *options: str) -> Running:
        """`kernelfuzz nightly` there."""
        return self._there("-m", "fuzz", "nightly", "--state", "state", "--pack", "pack", *options)

    def ask(self, question: str) -> list[list[Any]]:
        """Return the rows that answer a question to the state, asked from within: SQLite would follow the link of
        `folder` to a place outside."""
        looking = (
            "import json, sqlite3, sys; "
            "print(json.dumps(sqlite3.connect('state/state.sqlite').execute(sys.argv[1]).fetchall()))"
        )
        with self._there("-c", looking, question) as asking:
            said, _ = asking.ended()
        return cast(list[list[Any]], json.loads(said)) if said else []

    def _there(self, *arguments: str) -> Running:
        enter = ["nsenter", "--user", "--mount", "--preserve-credentials", f"--target={self._holder.pid}", "--"]
        there = ["sh", "-c", f'cd "{self._folder}" && exec "$@"', "sh", sys.executable]
        return Running([*(enter if self.mounted else []), *there, *arguments], self._folder)

    def fill(self, run: Running) -> None:
        """Nothing can be written any more."""
        if not self.mounted:
            resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            return
        with (self.folder / "state" / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"\0" * 4096)
            except OSError:
                return

    def free(self, run: Running) -> None:
        """There is room again."""
        if self.mounted:
            (self.folder / "state" / "filler").unlink()
        else:
            resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.communicate()
