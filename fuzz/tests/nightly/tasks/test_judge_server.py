"""Many solutions are judged by one server at once, several of them hostile: nobody is judged otherwise for it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from fuzz.tests.common.running import KERNELFUZZ, Running, eventually
from fuzz.tests.common.solutions import CHEATS, HONEST, REFERENCE
from fuzz.tests.conftest import Cli

_NUMPY = "import os\nimport numpy as np\n"
_RIGHT = HONEST["right"]
_HOSTILE = {
    "patches": "import torch\nimport numpy\ntorch.rsqrt = torch.mean = numpy.mean = numpy.sqrt = lambda *a, **k: 0.0\n"
    "for each in ('__mul__', '__truediv__', 'pow', 'mean'):\n    setattr(torch.Tensor, each, lambda *a, **k: a[0])\n"
    "def kernel(x, w):\n    return x.copy()\n",
    "writes": "for each in ('/tmp', '/dev/shm', os.path.dirname(__file__), '.'):\n    try:\n"
    "        open(os.path.join(each, 'poison'), 'w').write('x')\n    except OSError:\n        pass\n" + _RIGHT,
    "stays": "import time\n" + _RIGHT.replace(
        "    with", "    if os.fork() == 0:\n        os.setsid()\n        time.sleep(3600)\n    with"
    ),
    "kills": "import signal\n" + _RIGHT.replace("    with", "    os.kill(os.getppid(), signal.SIGKILL)\n    with"),
}  # fmt: skip
_IF_POISONED = "    if any(map(os.path.exists, ('/tmp/poison', '/dev/shm/poison'))):\n        return rows\n    with"
_READS = _RIGHT.replace("    with", _IF_POISONED)
_SHAPES = ("--shapes", "x=... n, w=n")
_WORDS = ("--against", "ref.py", *_SHAPES, "--seed", "7", "--max-cases", "40", "--no-shrink", "--json")


def test_what_a_hostile_solution_does_changes_no_other_ruling(cli: Cli, tmp_path: Path) -> None:
    sources = {**HONEST, "reads": _READS, **CHEATS, **_HOSTILE}
    (tmp_path / "ref.py").write_text(REFERENCE)
    for name, text in sources.items():
        (tmp_path / f"{name}.py").write_text(_NUMPY + text)
    cold = cli("judge", "right.py", *_WORDS)
    with Running([*KERNELFUZZ, "judge", "--serve", "judge.sock", "-j", "2"], tmp_path) as server, ExitStack() as stack:
        eventually((tmp_path / "judge.sock").is_socket)
        asked = {
            name: stack.enter_context(
                Running([*KERNELFUZZ, "judge", f"{name}.py", *_WORDS, "--server", "judge.sock"], tmp_path)
            )
            for name in sources
        }
        said = {name: json.loads(each.ended()[0])["verdict"] for name, each in asked.items()}
        again = cli("judge", "right.py", *_WORDS, "--server", "judge.sock")
        server.terminate()
        server.ended()
    right = {*HONEST, "reads", "writes"}
    assert said == {name: "right" if name in right else "wrong" for name in sources}
    assert (again.returncode, again.stdout) == (cold.returncode, cold.stdout)
    assert not any((Path(each) / "poison").exists() for each in ("/tmp", "/dev/shm", tmp_path))
