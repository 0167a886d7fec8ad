"""What the signature of a Python kernel says of it, in a pack and in a check alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz import Capabilities, PythonKernel
from fuzz.core.adapters.pack import PackError, load
from fuzz.core.base.outcome import Status
from fuzz.tasks.check.function import declared
from fuzz.tasks.check.request import Calling, Promises
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.python_planted import outcomes, python_target

_HEAD = "import no_such_module\n"
"""The source is read where a pack is loaded, and never executed there."""

_Facts = tuple[set[str], set[str], bool]


def _facts(able: Capabilities) -> _Facts:
    """What it takes, what it needs, and whether it takes an offset."""
    takes = set(able.takes or ())
    return takes, set(able.needs), bool(able.params)


def _of_pack(folder: Path, parameters: str, **declaration: Any) -> _Facts:
    (folder / "k.py").write_text(f"{_HEAD}def rms_norm({parameters}):\n    return x\n")
    return _facts(PythonKernel("k", "rms_norm", folder / "k.py", "torch", **declaration).capability.able)


def _of_check(parameters: str, declaration: Capabilities) -> _Facts:
    scope: dict[str, Any] = {}
    exec(f"def rms_norm({parameters}):\n    return x\n", scope)
    kernel, _ = declared(
        scope["rms_norm"], "rms_norm", Promises(capabilities=declaration, laws=()), Calling(arrays="torch")
    )
    return _facts(kernel.capability.able)


@pytest.mark.parametrize(
    ("parameters", "able", "expected"),
    [
        ("x, *, eps, axis, y", {}, (set(), set(), False)),
        ("x, weight=None, *, eps, axis, y", {}, ({"weight"}, set(), False)),
        ("x, weight=None, rstd=None, *, eps, y, weight_offset=0.0", {}, ({"weight", "rstd"}, set(), True)),
        ("x, weight=None, *, eps, axis, y, weight_offset=0.0", {}, ({"weight"}, set(), True)),
        ("x, weight, *, eps, axis, y, rstd=None", {}, ({"rstd"}, {"weight"}, False)),
        ("x, weight, *, eps, axis, y", {"takes": ("weight",)}, ({"weight"}, {"weight"}, False)),
        ("x, weight=None, *, eps, axis, y", {"takes": ()}, (set(), set(), False)),
        ("x, weight=None, rstd=None, *, eps, axis, y", {"takes": ("rstd",)}, ({"rstd"}, set(), False)),
        ("x, weight=None, rstd=None, *, eps, axis, y", {"needs": ("weight",)}, ({"rstd"}, {"weight"}, False)),
        ("x, *, eps, axis, y, weight_offset=0.0", {"params": ()}, (set(), set(), False)),
    ],
)
def test_a_pack_and_a_check_read_a_signature_in_one_way(
    tmp_path: Path, parameters: str, able: dict[str, Any], expected: _Facts
) -> None:
    declaration = Capabilities(**able)
    assert _of_pack(tmp_path, parameters, capabilities=declaration) == expected
    assert _of_check(parameters, declaration) == expected


def test_an_option_is_no_tensor_that_is_given(tmp_path: Path) -> None:
    assert _of_pack(tmp_path, "x, weight, *, eps, axis, y", options=(("weight", False),)) == (set(), set(), False)


@pytest.mark.parametrize(
    "text",
    [
        "def rms_norm(x, **rest): pass\n",
        "from functools import partial\nrms_norm = partial(print, weight=None)\n",
        "class Holder:\n    def rms_norm(x, weight=None): pass\n",
        "def rms_norm(:\n",
        "\0",
    ],
)
def test_a_source_that_does_not_say_leaves_it_to_the_declaration(tmp_path: Path, text: str) -> None:
    (tmp_path / "k.py").write_text(text)
    for able, takes in ((Capabilities(), set()), (Capabilities(takes=("weight",)), {"weight"})):
        kernel = PythonKernel("k", "rms_norm", tmp_path / "k.py", "torch", capabilities=able)
        assert set(kernel.capability.able.takes or ()) == takes


def test_the_function_of_the_kernel_is_read_wherever_the_module_defines_it(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        "def other(x, eps, axis, y): pass\n"
        "try:\n    import torch\nexcept ImportError:\n    pass\nelse:\n"
        "    @torch.no_grad()\n    def mine(x, rstd=None, *, eps, axis, y): pass\n"
    )
    kernel = PythonKernel("k", "rms_norm", tmp_path / "k.py", "torch", entry="mine")
    assert kernel.capability.able.takes == ("rstd",)


def test_a_forgotten_takes_is_no_forgotten_weight(tmp_path: Path, cache: Path) -> None:
    """The function that a test calls runs in a worker unchanged: without `axis`, and with weights."""
    text = (
        "def rms_norm(x, weight=None, *, eps):\n"
        "    y = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()\n"
        "    return y if weight is None else y * weight\n"
    )
    target = python_target(tmp_path, text, capabilities=Capabilities())
    plain, weighted = (a_case("rms_norm", names, layout=dense) for names in ((), ("weight",)))
    assert target.kernel.capability.accepts(weighted)
    one, two = outcomes(target, cache, plain, weighted)
    assert (one.status, two.status) == (Status.RAN, Status.RAN)
    assert one.outputs != two.outputs


def test_an_axis_that_the_function_cannot_hear_of_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("def rms_norm(x, eps): return x\n")
    (tmp_path / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz import Capabilities, PythonKernel\n"
        "KERNELS = (PythonKernel('k', 'rms_norm', Path(__file__).parent / 'k.py', 'torch',\n"
        "                        capabilities=Capabilities(axis='any')),)\n"
    )
    with pytest.raises(PackError, match=r"kernel k: capabilities.axis: 'any' needs a parameter 'axis'$"):
        load(tmp_path)


def test_what_cannot_be_declared_of_a_function_is_said_by_its_check() -> None:
    with pytest.raises(fuzz.CheckError, match="returns: 'y' is a parameter too, which it would write"):
        fuzz.check(lambda x, eps, y: y, op="rms_norm", returns=("y",))
