"""`kernelfuzz mcp`: an MCP server. Each of its tools runs a command in a new process, and returns the command's
JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from fuzz.cli.exits import Exit
from fuzz.cli.options import given


@dataclass(frozen=True)
class McpOptions:
    """The options of `kernelfuzz mcp`."""


def mcp(options: McpOptions) -> Exit:
    """Serve judge, show and tolerance to agents, through the Model Context Protocol on stdin and stdout.

    It needs the extra `mcp`. An agent's settings name the command.

    For example: kernelfuzz mcp
    """
    from fuzz.core.base.errors import UsageError

    if find_spec("mcp") is None:
        raise UsageError("mcp is not installed: pip install -e 'path/to/kernelfuzz[mcp]'")
    from mcp.server import MCPServer

    server = MCPServer("kernelfuzz")
    for tool in (judge, show, tolerance):
        server.tool()(tool)
    server.run()
    return Exit.OK


def judge(
    solution: str,
    against: str,
    shapes: str = "",
    full: bool = False,
    seed: int | None = None,
    max_time: float | None = None,
    server: str = "",
) -> dict[str, Any]:
    """Is this kernel right? `solution` is FILE or FILE:NAME, `against` a file with a function of torch tensors that
    says what it should compute, `shapes` such as "x=... n, w=n". Only the verdict "right" is a pass. `max_time` are the
    seconds after which there is a verdict, whatever was judged until then; `server` is the socket of a
    `kernelfuzz judge --serve`, which has read the reference already."""
    options = given(shapes=shapes or None, full=full, seed=seed, max_time=max_time, server=server or None)
    return _answered("judge", solution, "--against", against, *options, "--json")


def show(case: str, findings: str = "findings", pack: str = "") -> dict[str, Any]:
    """All that is known of a finding: a case file, or how its name begins, in the folder `findings`."""
    return _answered("show", case, *given(findings=findings, pack=pack or None), "--json")


def tolerance(op: str, dtype: str = "f32", n: int = 4096, extent: str = "") -> dict[str, Any]:
    """Which tolerance a correct kernel of an op needs, and what the usual ones let through; `extent` is that of another
    dimension than the row, such as "j=4096" keys of attention."""
    return _answered("tolerance", op, *given(dtype=dtype, n=n, extent=extent or None), "--json")


def _answered(*words: str) -> dict[str, Any]:
    """Return the JSON that a command prints. Raises ToolError, with the command's message, if it prints none."""
    command = [sys.executable, "-m", "fuzz", *words]
    # The kernels' output must not come between the protocol's messages, and kernels must not read these messages.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        from mcp.server.mcpserver.exceptions import ToolError  # the client is not told about other exceptions

        raise ToolError(done.stderr.strip() or f"exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
