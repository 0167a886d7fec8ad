"""The MCP server, started over stdio as an agent starts it: each of its tools answers."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fuzz.tests.conftest import CHECKOUT

mcp = pytest.importorskip("mcp", reason="the extra kernelfuzz[mcp] is not installed")

_REFERENCE = "def twice(x):\n    return x * 2\n"
_WRONG = "def kernel(x):\n    return x * 2 + (x.shape[-1] % 4 != 0)\n"


async def _called(folder: Path) -> tuple[set[str], dict[str, Any]]:
    started = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "fuzz", "mcp"], cwd=folder, env={**os.environ, "PYTHONPATH": _path()}
    )
    async with mcp.Client(started) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        asked = {"solution": "mine.py", "against": "reference.py", "shapes": "x=... n", "seed": 1}
        answers = {"judge": await client.call_tool("judge", asked)}
        [case, *_] = sorted((folder / "judged").rglob("findings/*.json")) or sorted((folder / "judged").rglob("*.json"))
        pack = answers["judge"].structured_content["pack"]
        answers["show"] = await client.call_tool("show", {"case": str(case), "pack": str(folder / pack)})
        answers["tolerance"] = await client.call_tool("tolerance", {"op": "softmax", "dtype": "bf16", "n": 64})
        answers["wrong"] = await client.call_tool("tolerance", {"op": "softmx"})
    return tools, answers


def _path() -> str:
    return os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])


def test_each_tool_answers(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(_REFERENCE)
    (tmp_path / "mine.py").write_text(_WRONG)
    tools, answers = asyncio.run(_called(tmp_path))
    assert tools == {"judge", "show", "tolerance"}
    assert answers["judge"].structured_content["verdict"] == "wrong"
    assert answers["show"].structured_content["verdict"] == "FAIL_NUMERIC"
    assert answers["tolerance"].structured_content["outputs"][0]["dtype"] == "bf16"
    assert answers["wrong"].is_error
    assert "did you mean softmax" in answers["wrong"].content[0].text
