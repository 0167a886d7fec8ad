"""What `kernelfuzz doctor` does."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from fuzz.adapters import toolchain
from fuzz.adapters.pack import built_in, load
from fuzz.adapters.python_target import INSTALL, PythonTarget, no_cuda_device
from fuzz.adapters.target import Target, expand
from fuzz.adapters.toolchain import Tool, this_host
from fuzz.base.attestation import Attestation, NotRun
from fuzz.cli.exits import Exit
from fuzz.execute.pool import WorkerPool
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import environment, status_record


def examine(*, install: bool, as_json: bool, pack: Path | None) -> Exit:
    """Report tools and targets; with `install`, get what is missing first. Exit 5 if no target can run."""
    out, err = console.results(), console.progress()
    targets = expand(load(pack or built_in()).kernels, this_host())
    if install and not _install(_wanted(tools(targets)), err):
        return Exit.INTERNAL
    found = tools(targets)
    with err.status(f"Building and starting {len(targets)} targets ..."), WorkerPool(targets) as pool:
        statuses = dict(pool.statuses)
    if as_json:
        print(json.dumps(_record(found, statuses), indent=1))
    else:
        _print(out, found, statuses)
    return Exit.OK if any(isinstance(status, Attestation) for status in statuses.values()) else Exit.NOTHING_RAN


def tools(targets: Sequence[Target]) -> tuple[Tool, ...]:
    """Every compiler and emulator of C kernels, and every program that some Python target needs, each once."""
    host = this_host()
    compilers = [toolchain.compiler(family, arch, host) for family in toolchain.FAMILIES for arch in toolchain.ARCHES]
    emulators = [toolchain.emulator(arch) for arch in toolchain.ARCHES]
    programs = [tool for target in targets if isinstance(target, PythonTarget) for tool in target.programs]
    return tuple({(tool.name, tool.prefix): tool for tool in (*compilers, *emulators, *programs)}.values())


def _wanted(found: Sequence[Tool]) -> list[Tool]:
    """What is missing and not optional."""
    return [tool for tool in found if tool.path is None and tool.name != "clang"]


def _install(missing: Sequence[Tool], err: Console) -> bool:
    packages = sorted({package for tool in missing for package in tool.package.split()})
    if not packages:
        return True
    root = [] if os.geteuid() == 0 else ["sudo"]
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *packages]):
        err.print("running: " + " ".join([*root, *command]))
        try:
            done = subprocess.run([*root, *command], stdout=2, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        except FileNotFoundError as error:
            err.print(f"kernelfuzz: {error.filename} is not here: install {' '.join(packages)} by hand")
            return False
        if done.returncode:
            err.print(f"kernelfuzz: {' '.join(command)} failed: install {' '.join(packages)} by hand")
            return False
    return True


def _print(out: Console, found: Sequence[Tool], statuses: dict[str, Attestation | NotRun]) -> None:
    rows = [(tool.name + " ".join(("", *tool.prefix)), tool.version or _missing(tool)) for tool in found]
    versions = environment()["packages"]
    rows += [(name, versions[name] or f"optional: {name} is not installed: {INSTALL}") for name in ("torch", "triton")]
    rows.append(("CUDA", no_cuda_device() or "a device is there"))
    print_table(PlainTable(("tool", "version"), rows), markdown=False)
    out.print()
    print_table(PlainTable(("target", "attested"), [(n, _words(s)) for n, s in statuses.items()]), markdown=False)
    for reason, count in _not_given(statuses).items():
        out.print(Text(f"on {count} targets {reason}"))
    running = sum(1 for status in statuses.values() if isinstance(status, Attestation))
    out.print()
    out.print(f"{running} of {len(statuses)} targets run here")
    if _wanted(found):
        out.print(Text("next: kernelfuzz doctor --install"))
    else:
        out.print(Text("next: kernelfuzz run --max-time 1m"))


def _not_given(statuses: dict[str, Attestation | NotRun]) -> dict[str, int]:
    """What targets are not given although their kernels take it, and on how many of them."""
    attested = [status for status in statuses.values() if isinstance(status, Attestation)]
    return Counter(f"no case with {dtype}: {why}" for status in attested for dtype, why in status.not_given.items())


def _missing(tool: Tool) -> str:
    return f"{'optional' if tool.name == 'clang' else 'missing'}: {tool.missing}"


def _words(status: Attestation | NotRun) -> str:
    if isinstance(status, NotRun):
        return f"NOT_RUN: {status.reason}"
    return status.words


def _record(found: Sequence[Tool], statuses: dict[str, Attestation | NotRun]) -> dict[str, Any]:
    return {
        "environment": environment(),
        "tools": [
            {
                "name": tool.name,
                "version": tool.version or None,
                "package": tool.package,
                "optional": tool.name == "clang",
            }
            for tool in found
        ],
        "targets": [{"target": name, **status_record(status)} for name, status in statuses.items()],
    }
