"""The MCP server, started over stdio as an agent starts it: each tool answers, and an agent repairs a kernel."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fuzz.tests.common.repairing import repaired
from fuzz.tests.conftest import CHECKOUT

mcp = pytest.importorskip("mcp", reason="the extra kernelfuzz[mcp] is not installed")

_REFERENCE = "def twice(x):\n    return x * 2\n"
_WRONG = "def kernel(x):\n    return x * 2 + (x.shape[-1] % 4 != 0)\n"


def _started(folder: Path) -> Any:
    return mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "fuzz", "mcp"], cwd=folder, env={**os.environ, "PYTHONPATH": _path()}
    )


async def _called(folder: Path) -> tuple[set[str], dict[str, Any]]:
    async with mcp.Client(_started(folder)) as client:
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


async def _repaired(folder: Path, kind: str) -> list[str]:
    """Return the verdicts of both rulings, of one server that is asked as an agent asks it."""
    loop = asyncio.get_running_loop()
    async with mcp.Client(_started(folder)) as client:

        def judged(source: str, reference: str, shapes: str) -> Mapping[str, Any]:
            (folder / "mine.py").write_text(source)
            (folder / "reference.py").write_text(reference)
            asked = {"solution": "mine.py", "against": "reference.py", "shapes": shapes, "seed": 1}
            answer = asyncio.run_coroutine_threadsafe(client.call_tool("judge", asked), loop).result()
            found: dict[str, Any] = answer.structured_content
            return found

        return await asyncio.to_thread(repaired, kind, judged)


def test_an_agent_repairs_a_kernel_through_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other kinds are repaired through `fuzz.judge`, in less time, as nothing is made smaller there."""
    monkeypatch.chdir(tmp_path)  # where the folder is that `inputs` name
    assert asyncio.run(_repaired(tmp_path, "tail")) == ["wrong", "right"]
