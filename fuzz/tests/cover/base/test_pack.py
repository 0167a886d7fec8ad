"""Packs: what an author easily gets wrong is said in one line that names the field."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fuzz.core.adapters.pack import PackError, built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.conftest import CHECKOUT, GENERIC
from oracles.op import Op
from oracles.operand import OpError
from oracles.ops import OPS, register

HEAD = """
from pathlib import Path
from fuzz import *
SOURCE = Path(__file__).parent / "k.c"
"""

OWN = """
from oracles.formula.trace import exp
from oracles.op import Op
from oracles.operand import Flip, Operand
X, Y = (Operand("x", "... n"),), (Operand("y", "... n"),)
def own(x): return {{"y": exp(x)}}
OPS = ({},)
"""

MISTAKES = {
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE))": "KERNELS must be a tuple",
    "KERNELS = 5": "KERNELS must be a tuple",
    "KERNELS = ('k', 3)": "KERNELS holds 'k': each must be one like CKernel(...)",
    "raise ValueError('one\\ntwo')": "line 5: ValueError: one\\ntwo",
    "KERNELS = ()": "declares no kernels",
    "KERNELS = (CKernel('k', 'rms_norm', 'k.c'),)": "source: write a path",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE.with_name('no.c')),)": "does not exist",
    "KERNELS = (CKernel('my kernel@*/', 'rms_norm', SOURCE),)": "name: 'my kernel@*/'",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, 'avx3'),)": "vsx; did you mean 'avx2'?",
    "CKernel('k', 'rms_norm', SOURCE, contract=None)": "contract: None is no Contract: write Contract(...), or",
    "CKernel('k', 'rms_norm', SOURCE, capabilities=None)": "capabilities: None is no Capabilities: write Capabilities(",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, contract=Contract(sums={'n': 'pairwise'})),)": "summation",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, contract=Contract(compute='f99')),)": "contract: dtype: 'f99'",
    "Contract(accuracy={'foo': 1.0})": "accuracy: 'foo' is no function; there are acos, acosh, ",
    "Contract(accuracy={'floor': 1.0})": "accuracy: floor needs none: its results are exact",
    OWN.replace("exp(x)}}", "formula.foo(x)}}").format("Op(own, X, Y)"): (
        "own: its formula, given x: AttributeError: fuzz.formula has no function 'foo'; it has abs, acos, "
    ),
    OWN.replace("exp(x)}}", "exp(x, 2)}}").format("Op(own, X, Y)"): "own: exp has no constant: write f.exp(value)",
    OWN.replace("exp(x)}}", "formula.pow(x)}}").format("Op(own, X, Y)"): "own: pow: write f.pow(value, exponent)",
    "Contract(**{'rounded': 'llama'})": "pack.py: line 5: Contract has no field 'rounded': it has compute, ",
    "Capabilities(stride='any')": "line 5: Capabilities has no field 'stride': did you mean 'strides'?",
    "CKernel('k', 'rms_norm', SOURCE, wibble=1)": "CKernel has no field 'wibble': it has name, op, source, isa, ",
    "open(word='r')": "line 5: TypeError: ",
    "Capabilities(strides='pitch')": "capabilities.strides: 'pitch' is not one of contiguous, spaced, pitched, rows, ",
    "Capabilities(dtypes=('f8',))": "capabilities.dtypes: 'f8' is not one of f32, f16, bf16, f64, e4m3fn, e5m2",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, capabilities=Capabilities(mixed=(('y', ('e9m9',)),))),)": (
        "capabilities.mixed: y: 'e9m9' is not one of x, f32, f16, bf16, f64, e4m3fn, e5m2"
    ),
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, contract=Contract('input'), capabilities=Capabilities(('e5m2',))),)": (
        "contract: compute in the dtype of input: 'e5m2' is not one of f32, f16, bf16, f64"
    ),
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, contract=Contract(dtypes={'h': 'weight'}), "
    "capabilities=Capabilities(mixed=(('weight', ('x', 'e5m2')),))),)": "contract: h in the dtype of weight: 'e5m2' is",
    "Capabilities(dtypes='f32')": "capabilities.dtypes: write a tuple",
    "Capabilities(dtypes=())": "capabilities.dtypes: write a tuple, ('f32',), in place of ()",
    "Capabilities(dtypes=['f32'])": "capabilities.dtypes: write a tuple, ('f32',), in place of ['f32']",
    "Capabilities(mixed=(('y', ()),))": "capabilities.mixed: y: write a tuple, ('f32',), in place of ()",
    "Capabilities(mixed=((),))": "capabilities.mixed: write pairs, (('w', ('f32',)),), in place of ()",
    "Capabilities(alignment=7)": "capabilities.alignment: 7",
    "Capabilities(multiple_of=64)": "capabilities.multiple_of: write numbers by dimension, {'n': 64}, in place of 64",
    "Capabilities(max={'n': 32}, multiple_of={'n': 64})": "capabilities.max: n: no multiple of 64 is at most 32",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, capabilities=Capabilities(max={'m': 8})),)": (
        "capabilities.max: 'm' is not one of n"
    ),
    "Capabilities(axis='first')": "capabilities.axis: 'first'",
    "KERNELS = (CKernel('k', 'rms_norm_backward', SOURCE, capabilities=Capabilities(stacked=('weight',))),)": (
        "capabilities.stacked: rms_norm_backward has none, not even 'weight'"
    ),
    "KERNELS = (CKernel('k', 'rmsnorm', SOURCE),)": "op: 'rmsnorm' is not one of rms_norm,",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, capabilities=Capabilities(takes=('wieght',))),)": (
        "capabilities.takes: 'wieght' is not one of weight, rstd"
    ),
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, capabilities=Capabilities(needs=('residual',))),)": (
        "capabilities.needs: 'residual'"
    ),
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, capabilities=Capabilities(mixed=(('z', ('f32',)),))),)": (
        "capabilities.mixed: 'z'"
    ),
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, capabilities=Capabilities(aliases=(('x', 'y'),))),)": (
        "capabilities.aliases: ('x', 'y') is not one of ('y', 'x')"
    ),
    "Lanes(0, 4, 'scalar')": "lanes",
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE),) * 2": "declares k more than once",
    "from oracles.op import *; OPS = 5": "OPS must be a tuple: OPS = (Op(...),)",
    OWN.format("Op(own, X, Y, scaling={'x': 1})"): "own: scaling: exp of what goes with s^1",
    OWN.format("Op(own, X, Y, algorithms={'y': {'twice': lambda x: exp(x) + exp(x)}})"): (
        "own: with its algorithm 'twice' of y, y has another exact value"
    ),
    OWN.format("Op(own, X, Y, algorithms={'y': {'odd': lambda x: math.exp(x)}})"): (
        "own: algorithm 'odd' of y: NameError: name 'math' is not defined"
    ),
    OWN.replace('{{"y": exp(x)}}', "exp(x)").format(
        "Op(own, X, Y)"
    ): "own: the formula must return its outputs by name",
    OWN.replace("import exp", "import welford_squares")
    .replace("exp(x)", "welford_squares(x, 'n') * x")
    .format(
        "Op(own, X, Y, scaling={'x': 1, 'y': 2})"
    ): "own: scaling: welford_squares, which kernels may form in any way",
    OWN.format("Op(own, X, Y, flips=(Flip(('x',), ('y',)),))"): "own: flips: with x negated y is another number",
    OWN.format("Op(own, X, Y + (Operand('z', '...'),))"): "own: its formula returns y, and no 'z'",
    OWN.format("Op(own, (Operand('x', '... n', values='odd'),), Y)"): "own: x: values 'odd' is not one of any,",
    OWN.format("Op(own, X, (Operand('y', '... n', dtype='e9m9'),))"): (
        "own: y: dtype 'e9m9' is neither a tensor of the op nor one of f32, f16, bf16, f64, e4m3fn, e5m2, int8, int32,"
        " int64,"
    ),
    OWN.replace("exp(x)}}", "x * formula.extent('k')}}").format("Op(own, X, Y)"): (
        "own: extent('k'): given x there are only the dimensions '...', 'n'"
    ),
    OWN.replace("exp(x)}}", "x - formula.total(x, ('n', 'k'))}}").format("Op(own, X, Y)"): (
        "own: sum over 'k': the value has only the dimensions ['...', 'n']"
    ),
    OWN.format("Op(own, X, Y)")
    + "KERNELS = (CKernel('k', 'own', SOURCE, contract=Contract(sums={'n k': AnyOrder()})),)": (
        "contract.sums: 'k' is not one of y, ..., n"
    ),
    "KERNELS = (CKernel('k', 'rms_norm', SOURCE, contract=Contract(points={'h': 'maybe fp4'})),)": (
        "contract: dtype: 'fp4' is not one of f32,"
    ),
    OWN.format("Op(own, X + Y, Y)"): "own: two tensors or parameters are called 'y'",
    OWN.format("Op(own, X, (Operand('y', '...'),))"): "own: y has the dimensions '...', and by the formula also 'n'",
    "raise SystemExit(7)": "line 5: SystemExit: 7",
    "1 / 0": "line 5: ZeroDivisionError",
    "def (": "pack.py: SyntaxError: ",
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_in_a_pack_is_one_line_that_says_what(mistake: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(GENERIC)
    (tmp_path / "pack.py").write_text(HEAD + mistake + "\n")
    with pytest.raises(PackError) as caught:
        load(tmp_path)
    assert MISTAKES[mistake] in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_op_of_a_pack_takes_the_place_of_a_built_in_one_but_not_of_another_packs() -> None:
    def op_of(file: str) -> Op:
        room: dict[str, Any] = {}
        exec(compile(OWN.replace("own(", "rms_norm(").format("Op(rms_norm, X, Y)"), file, "exec"), room)
        [found] = room["OPS"]
        assert isinstance(found, Op)
        return found

    one = register(op_of("one.py"))
    assert OPS["rms_norm"] is one
    with pytest.raises(OpError, match="rms_norm: there is another op of that name"):
        register(op_of("two.py"))


def test_a_kernel_of_an_op_that_is_called_like_a_built_in_one_is_checked_by_its_own(tmp_path: Path) -> None:
    """The op is known when all of the pack is read, which is after its kernels were declared."""
    (tmp_path / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz import *\nfrom fuzz import formula as f\n\n\n"
        "def attention(keys, *, scale):\n    return {'o': scale * keys}\n\n\n"
        "OPS = (Op(attention, (Operand('keys', 'k d'),), (Operand('o', 'k d'),), (Parameter('scale', (2.0,)),)),)\n"
        "KERNELS = (PythonKernel('k', 'attention', Path(__file__).parent / 'k.py', 'numpy'),)\n"
    )
    (tmp_path / "k.py").write_text("def attention(keys, *, scale): return scale * keys\n")
    [kernel] = load(tmp_path).kernels
    assert kernel.op == "attention"
    assert [each.name for each in OPS["attention"].inputs] == ["keys"]


def test_a_file_that_is_missing_is_told_of_its_kernel_and_the_others_run(tmp_path: Path, cache: Path) -> None:
    kernels = ", ".join(f"PythonKernel('{name}', 'rms_norm', SOURCE.with_name('{name}.py'), 'numpy')" for name in "ab")
    (tmp_path / "pack.py").write_text(f"{HEAD}KERNELS = ({kernels})\n")
    (tmp_path / "a.py").write_text("def rms_norm(x, *, eps): return x\n")
    there, lost = load(tmp_path).kernels
    assert there.lost is None
    with WorkerPool(expand([lost]), cache=cache) as pool:
        [status] = pool.statuses.values()
    assert isinstance(status, NotRun)
    assert status.broken == f"source: {tmp_path / 'b.py'} does not exist"


def test_a_field_that_is_unknown_is_named_with_the_file_beside_the_pack_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text("from .mine import KERNELS\n")
    (tmp_path / "mine.py").write_text("\nfrom fuzz import Contract\nPLAIN = Contract(\n  point={'h': 'input'})\n")
    with pytest.raises(PackError, match=r"pack\.py: mine\.py: line 3: Contract has no field 'point': did you mean"):
        load(tmp_path)


PYTHON = """
from pathlib import Path
from fuzz import *
KERNELS = (PythonKernel("k", "rms_norm", Path(__file__).parent / "k.py", "numpy", {}),)
"""
HAS = "rms_norm has x, weight, y, rstd, eps, weight_offset, axis"


@pytest.mark.parametrize(
    ("function", "more", "said"),
    [
        (
            "def rms_norm(x, wieght, *, eps): return x",
            "",
            f"parameter 'wieght' is nothing that it can be called with: did you mean 'weight'? {HAS}",
        ),
        ("def rms_norm(x,\n  wieght=None, *, eps): return x", "", "k.py line 5: parameter 'wieght' is nothing"),
        ("def rms_norm(x, block, *, eps): return x", "", f"'block' is nothing that it can be called with: {HAS}"),
        ("def rms_norm(x, *, epsilon): return x", "", "parameter 'epsilon' is nothing that it can be called with: did"),
        (
            "def rms_norm(x, gamma, eps): return x",
            "",
            f"parameter 'gamma' is nothing that it can be called with: did you mean 'weight'? {HAS}",
        ),
        ("def rms_norm(x, y): y[:] = x", "", f"k.py line 4: it has no parameter 'eps': {HAS}"),
        (
            "def rms_norm(x, eps): return x",
            "options=(('block', 2),)",
            "it has no parameter 'block', which options give",
        ),
    ],
)
def test_a_function_that_every_call_would_fail_with_is_refused_with_its_line(
    function: str, more: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "pack.py").write_text(PYTHON.format(more))
    (tmp_path / "k.py").write_text("\n\n\n" + function + "\n")
    with pytest.raises(PackError) as caught:
        load(tmp_path)
    assert said in str(caught.value)
    assert f"{tmp_path / 'pack.py'}: kernel k: k.py line " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "more"),
    [
        ("def rms_norm(x, *, eps, block=128, axes=1): return x", ""),
        ("def rms_norm(x, block, *, eps): return x", "options=(('block', 2),)"),
        ("def rms_norm(x, weight=None, *, eps, weight_offset=0.0, axis): return x", ""),
        ("def rms_norm(**given): return given['x']", ""),
        ("@named\ndef rms_norm(a, b): return a", ""),
        ("rms_norm = lambda a: a", ""),
    ],
)
def test_a_function_that_can_be_called_is_taken(function: str, more: str, tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(PYTHON.format(more))
    (tmp_path / "k.py").write_text(function + "\n")
    assert [kernel.name for kernel in load(tmp_path).kernels] == ["k"]


def test_an_op_of_a_pack_is_known_once_it_is_loaded_and_may_be_changed_then(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(GENERIC)
    kernel = "KERNELS = (CKernel('k', 'own', SOURCE, capabilities=Capabilities(takes={})),)\n"
    try:
        for more, takes in (("", ()), (", Operand('z', '...', optional=True)", ("z",))):
            text = OWN.format("Op(own, X" + (f" + ({more[2:]},)" if more else "") + ", Y)")
            if more:
                text = text.replace("own(x)", "own(x, z=None)")
            (tmp_path / "pack.py").write_text(HEAD + kernel.format(takes) + text)
            pack = load(tmp_path)
            assert (pack.kernels[0].able.optional, OPS["own"].optional) == (takes, takes)
            assert pack.ops == (OPS["own"],)
    finally:
        OPS.pop("own", None)


def test_a_folder_without_pack_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"it has no pack\.py"):
        load(tmp_path)


def test_the_built_in_pack_has_its_kernels_and_mutants() -> None:
    pack = load(built_in())
    assert {"generic", "composed", "avx2", "avx512", "neon", "sve", "dispatch"} <= {
        kernel.name for kernel in pack.kernels
    }
    assert {mutant.base for mutant in pack.mutants} <= {kernel.name for kernel in pack.kernels}


def test_a_pack_never_takes_a_top_level_name() -> None:
    """Other distributions are called `kernels` too: loading the pack must not import under that name."""
    code = "import sys; from fuzz.core.adapters.pack import *; load(built_in()); print('kernels' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert answer.stdout.strip() == "False"


_ENDING = {
    "exits": ("import os; os._exit(0)", "its import ends the process (exit code 0)"),
    "fails": ("import os; os._exit(9)", "its import ends the process (exit code 9)"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "its import ends the process (signal 9, Killed)"),
    "endless": ("while True: pass", "its import does not end: it was given 0.5 seconds"),
    "leaves": ("import sys; print('printed'); sys.exit(0)", "line 1: SystemExit: 0"),
    "deep": ("def f(): f()\nf()", "line 1: RecursionError: maximum recursion depth exceeded"),
    "stranger": ("raise GeneratorExit", "line 1: GeneratorExit: "),
}


def test_a_pack_that_ends_the_process_or_never_ends_its_import_is_told_in_one_line(tmp_path: Path) -> None:
    for name, (text, _) in _ENDING.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "pack.py").write_text(text)
    program = (
        "import sys\nfrom pathlib import Path\nfrom fuzz.core.adapters import pack\n"
        "for name in sys.argv[1:]:\n"
        "    pack.IMPORT_S = 0.5 if name == 'endless' else pack.IMPORT_S\n"
        "    try:\n        pack.load(Path(name), rehearsed=True)\n"
        "    except pack.PackError as error:\n        print(error)\n"
    )
    # A process of its own: where others imported torch, nothing is rehearsed.
    done = subprocess.run([sys.executable, "-c", program, *_ENDING], cwd=tmp_path, capture_output=True, text=True)
    said = [f"{name}/pack.py: {words}" for name, (_, words) in _ENDING.items()]
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if line != "printed"] == said
    assert done.stdout.count("printed") == 1, "what a rehearsal prints is not shown"
