"""What is missing is named by the package manager of the machine, as far as that has it."""

from __future__ import annotations

import pytest

from fuzz.core.base.packages import MANAGERS, how, manager


@pytest.mark.parametrize(
    ("program", "package", "said"),
    [
        ("apt-get", "gcc libc6-dev", " (apt-get install gcc libc6-dev)"),
        ("dnf", "g++ libc6-dev", " (dnf install gcc-c++ glibc-devel)"),
        ("dnf", "qemu-user", " (dnf install qemu-user)"),
        ("dnf", "gcc-aarch64-linux-gnu", " (Debian has it in gcc-aarch64-linux-gnu; see fuzz/docs/installing.md)"),
        ("pacman", "gcc-riscv64-linux-gnu", " (pacman -S riscv64-linux-gnu-gcc)"),
        ("pacman", "gcc g++", " (pacman -S gcc)"),
        ("", "bubblewrap", " (Debian has it in bubblewrap; see fuzz/docs/installing.md)"),
        ("apt-get", "", ""),
    ],
)
def test_how_a_program_is_installed(program: str, package: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = next((each for each in MANAGERS if each.program == program), None)
    monkeypatch.setattr("fuzz.core.base.packages.manager", lambda: here)
    assert how(package) == said


def test_a_machine_has_the_manager_that_is_in_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name if name in ("pacman", "dnf") else None)
    found = manager()
    assert found is not None
    assert found.program == "dnf"
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert manager() is None
