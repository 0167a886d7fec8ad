"""How programs are installed here: the package managers of distributions, and what they call Debian's packages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Manager:
    """A package manager."""

    program: str
    install: str
    """The words that install packages."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Its names of packages whose Debian names match these patterns; '' where it has none. Others have the same."""

    def name(self, package: str) -> str:
        """What it calls a package of Debian; '' where it has none."""
        for pattern, name in self.names.items():
            if found := re.fullmatch(pattern, package):
                return found.expand(name)
        return package


APT = Manager("apt-get", "apt-get install")
MANAGERS = (
    APT,
    # Its cross compilers have no C library: they build kernels of Linux alone.
    Manager(
        "dnf", "dnf install",
        {r"g\+\+": "gcc-c++", "libc6-dev": "glibc-devel", r"(gcc|g\+\+)-.*-linux-gnu": "", r"clang-\d+": "clang"},
    ),
    # Its repositories have none for POWER.
    Manager(
        "pacman", "pacman -S",
        {r"g\+\+|gcc": "gcc", "libc6-dev": "glibc", r"(?:gcc|g\+\+)-(aarch64|riscv64)-linux-gnu": r"\1-linux-gnu-gcc",
         r"(gcc|g\+\+)-.*-linux-gnu": "", r"clang-\d+": "clang"},
    ),
)  # fmt: skip
"""Those that are known, Debian's first."""


def manager() -> Manager | None:
    """The package manager of this machine; None if it has no known one."""
    return next((each for each in MANAGERS if shutil.which(each.program) is not None), None)


def how(package: str) -> str:
    """What to type for packages of Debian, in parentheses, to be said behind what is missing; '' for none."""
    if not package:
        return ""
    here, words = manager(), package.split()
    names = [] if here is None else list(dict.fromkeys(filter(None, map(here.name, words))))
    if here is None or not names:
        return f" (Debian has it in {' '.join(words)}; see fuzz/docs/installing.md)"
    return f" ({here.install} {' '.join(names)})"
