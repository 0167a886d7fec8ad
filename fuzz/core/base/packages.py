"""How to install programs on this machine: package managers, and their names for Debian's packages."""

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
    """The command that installs packages."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of packages that differ from Debian's, by a pattern that matches Debian's; '' for a missing package."""

    def name(self, package: str) -> str:
        """Return this manager's name for a package of Debian, or '' if it has no such package."""
        for pattern, name in self.names.items():
            if found := re.fullmatch(pattern, package):
                return found.expand(name)
        return package


APT = Manager("apt-get", "apt-get install")
MANAGERS = (
    APT,
    # these cross compilers come without a C library, and build only the Linux kernel
    Manager(
        "dnf", "dnf install",
        {r"g\+\+": "gcc-c++", "libc6-dev": "glibc-devel", r"(gcc|g\+\+)-.*-linux-gnu": "", r"clang-\d+": "clang"},
    ),
    # it has no package for POWER
    Manager(
        "pacman", "pacman -S",
        {r"g\+\+|gcc": "gcc", "libc6-dev": "glibc", r"(?:gcc|g\+\+)-(aarch64|riscv64)-linux-gnu": r"\1-linux-gnu-gcc",
         r"(gcc|g\+\+)-.*-linux-gnu": "", r"clang-\d+": "clang"},
    ),
)  # fmt: skip
"""The known package managers, Debian's first."""


def manager() -> Manager | None:
    """Return the package manager of this machine, or None if it is not a known one."""
    return next((each for each in MANAGERS if shutil.which(each.program) is not None), None)


def how(package: str) -> str:
    """Return the text in parentheses that follows the name of a missing program: the command that installs it here, or
    else its name in Debian and a hint. `package` holds the names of Debian's packages, separated by spaces; '' gives
    ''."""
    if not package:
        return ""
    here, words = manager(), package.split()
    names = [] if here is None else list(dict.fromkeys(filter(None, map(here.name, words))))
    if here is None or not names:
        return f" (Debian has it in {' '.join(words)}; see fuzz/docs/installing.md)"
    return f" ({here.install} {' '.join(names)})"
