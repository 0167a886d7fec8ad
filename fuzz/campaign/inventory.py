"""The tools and targets of this machine, with proof: targets are started, and report what they are."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from fuzz.core.adapters import toolchain
from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.core.adapters.isa import QEMU, architectures
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.adapters.toolchain import Tool, this_host
from fuzz.core.base.packages import APT, how, manager
from fuzz.core.execute.corners import Statuses
from fuzz.core.transport import sandbox
from fuzz.report.console import PlainTable, print_lines
from fuzz.report.records import environment, status_record


def tools(targets: Sequence[Target]) -> tuple[Tool, ...]:
    """Return all compilers and emulators for C kernels, and all programs of Python targets, each once."""
    host = this_host()
    compilers = [toolchain.compiler(family, arch, host) for family in toolchain.USUAL for arch in architectures()]
    emulators = [toolchain.emulator(QEMU, arch) for arch in architectures()]
    needed = [tool for target in targets for tool in target.adapter.tools(target)]
    box = toolchain.program(sandbox.PROGRAM, sandbox.PACKAGE)
    return tuple({(tool.name, tool.prefix): tool for tool in (*compilers, *emulators, *needed, box)}.values())


def wanted(found: Sequence[Tool]) -> list[Tool]:
    """Return the tools that are missing and not optional."""
    return [tool for tool in found if tool.path is None and not tool.optional]


def install(missing: Sequence[Tool], err: Console) -> bool:
    """Install the missing tools with apt-get. Return False if that fails, after printing why."""
    packages = sorted({package for tool in missing for package in tool.package.split()})
    if not packages:
        return True
    if manager() is not APT:
        print_lines(err, [f"kernelfuzz: --install asks apt-get, which is not here{how(' '.join(packages))}"])
        return False
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


def tool_table(found: Sequence[Tool]) -> PlainTable:
    """Return a table of the tools with their versions, or with how to get them."""
    rows = [(tool.name + " ".join(("", *tool.prefix)), tool.version or _missing(tool)) for tool in found]
    versions = environment()["packages"]
    missing = "optional: {0} is not installed: pip install {0}"
    rows += [(name, versions[name] or missing.format(name)) for name in ("torch", "triton")]
    return PlainTable(("tool", "version"), [*rows, ("CUDA", no_cuda_device() or "a device is there")])


def target_table(statuses: Statuses) -> PlainTable:
    """Return a table of the targets with what each attested, or why it did not run."""
    return PlainTable(("target", "what it reported"), [(name, _words(status)) for name, status in statuses.items()])


def summary_table(statuses: Statuses) -> PlainTable:
    """Return a table of the kinds of targets with the number of each; those that run come first."""
    sorts = Counter(status.kind if isinstance(status, Attestation) else _words(status) for status in statuses.values())
    ran = [status.kind for status in statuses.values() if isinstance(status, Attestation)]
    rows = sorted(sorts.items(), key=lambda row: (row[0] not in ran, -row[1]))
    return PlainTable(("targets", "what they reported"), [(str(count), words) for words, count in rows])


def not_judged(statuses: Statuses) -> dict[str, int]:
    """Return lines about cases that kernels accept but that are not judged, each with its number of targets."""
    attested = [status for status in statuses.values() if isinstance(status, Attestation)]
    wrong = [f"no case with {dtype}: {why}" for status in attested for dtype, why in status.wrong_dtypes.items()]
    return Counter([*wrong, *(status.undecidable for status in attested if status.undecidable)])


def _missing(tool: Tool) -> str:
    return f"{'optional' if tool.optional else 'missing'}: {tool.missing}"


def _words(status: Attestation | NotRun) -> str:
    if isinstance(status, NotRun):
        return f"NOT_RUN: {status.reason}"
    return status.words


def facts(found: Sequence[Tool], statuses: Statuses) -> dict[str, Any]:
    """Return the tools and targets as the JSON record has them."""
    return {
        "environment": environment(),
        "tools": [
            {
                "name": tool.name,
                "version": tool.version or None,
                "package": tool.package,
                "optional": tool.optional,
                "missing": tool.missing or "",
            }
            for tool in found
        ],
        "targets": [{"target": name, **status_record(status)} for name, status in statuses.items()],
    }
