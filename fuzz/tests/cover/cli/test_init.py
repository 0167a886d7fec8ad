"""A pack to begin with: it runs as it is written, and finds what is broken in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.core.adapters.pack import load
from fuzz.core.base.errors import UsageError
from fuzz.tasks.beginning.written import InitRequest, begin
from fuzz.tests.conftest import Cli

_TAIL = ("total += y[i] = expf(x[i] - top);", "total += y[i] = i % 8 == 7 ? 0.0f : expf(x[i] - top);")
_BREAKS = {
    "numpy": ("e.sum(-1, keepdims=True)", "e[..., : 7].sum(-1, keepdims=True)"),
    "c": _TAIL,
    "c++": tuple(each.replace("expf", "std::exp") for each in _TAIL),
    "shared": _TAIL,
    "torch": ("e.sum(-1, keepdim=True)", "e[..., : 7].sum(-1, keepdim=True)"),
    "cuda": ("i < n; i += blockDim.x) total +=", "i < n / 4 * 4; i += blockDim.x) total +="),
    "command": ("sum(e)", "sum(e[:7])"),
    "dlpack": ("e.sum(-1, keepdims=True)", "e[..., : 7].sum(-1, keepdims=True)"),
    "triton": ("mask=there, other=-float", "mask=columns < n // 4 * 4, other=-float"),
}
"""What is broken in a kernel of each kind, and how."""


def _found(cli: Cli, *more: str) -> subprocess.CompletedProcess[str]:
    return cli("run", "--pack", "pack", "--max-cases", "20", "--seed", "1", "-j", "1", "--explain-time", "1s", *more)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", _BREAKS)
def test_a_pack_runs_at_once_and_finds_what_is_broken(cli_here: Cli, tmp_path: Path, kind: str) -> None:
    if kind == "cuda" and (missing := no_cuda_device()) is not None:
        pytest.skip(missing)
    begun = cli_here("init", "pack", "--kind", kind)
    assert begun.returncode == 0, begun.stderr
    assert begun.stdout.splitlines()[-1] == "next: kernelfuzz run --pack pack --max-cases 200"
    assert len((tmp_path / "pack" / "pack.py").read_text().splitlines()) <= 24
    done = _found(cli_here)
    assert done.returncode == 0, done.stdout
    [source] = [path for path in (tmp_path / "pack").glob("mine.*") if path.suffix != ".so"]
    old, new = _BREAKS[kind]
    assert source.read_text().count(old) == 1
    source.write_text(source.read_text().replace(old, new))
    if kind == "shared":
        words = ["gcc", "-O2", "-shared", "-fPIC", "mine.c", "-o", "libmine.so", "-lm"]
        subprocess.run(words, cwd=tmp_path / "pack", check=True)
    done = _found(cli_here, "--no-shrink")
    assert done.returncode == 1, done.stdout
    assert "FAIL " in done.stdout


_MORE_BREAKS = {
    "cuda": (
        ("y[i] /= total;", "y[i + (n > 8)] = y[i] / total;"),
        ("y[i] /= total;", "y[i + (n > 8 ? 1ll << 40 : 0)] = y[i] / total;"),
        ("expf(x[i] - top)", "expf(x[i])"),
    ),
    "dlpack": (
        ("x - x.max(-1, keepdims=True)", "x"),
        ("return e / ", "return (e * (x.shape[-1] < 9)) / "),
        ("return e / ", "return jnp.float16(e) / "),
    ),
    "command": (
        ("for each in e]", "for each in sorted(e)]"),
        ("e = [math", "row[16:17] and sys.exit(3)\n    e = [math"),
        ("e = [math", "while row[16:17]:\n        pass\n    e = [math"),
    ),
}
"""Three more of those that call no compiler of C."""


@pytest.mark.whole
@pytest.mark.parametrize("kind", _MORE_BREAKS)
def test_each_of_three_faults_is_found(cli_here: Cli, tmp_path: Path, kind: str) -> None:
    if kind == "cuda" and (missing := no_cuda_device()) is not None:
        pytest.skip(missing)
    cli_here("init", "pack", "--kind", kind)
    [source] = (tmp_path / "pack").glob("mine.*")
    right = source.read_text()
    for old, new in _MORE_BREAKS[kind]:
        assert right.count(old) == 1
        source.write_text(right.replace(old, new))
        done = _found(cli_here, "--no-shrink")
        assert done.returncode == 1, (new, done.stdout)
        assert "FAIL " in done.stdout or "CRASH " in done.stdout or "TIMEOUT " in done.stdout


def test_nothing_is_overwritten(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "mine.c").write_text("mine\n")
    done = cli_here("init", "pack", "--kind", "c")
    assert (done.returncode, done.stderr) == (4, "kernelfuzz: pack/mine.c exists: nothing is overwritten\n")
    assert [path.name for path in (tmp_path / "pack").iterdir()] == ["mine.c"]
    assert (tmp_path / "pack" / "mine.c").read_text() == "mine\n"


_SOURCE = """#include <math.h>
/* int unrelated(int); */
#define EIGHT 8
static float square(float x) { return x * x; }

void my_rms_norm(const float *x, float *out, long rows, long n, float epsilon) {
    for (; rows > 0; rows--, x += n, out += n) {
        float total = 0.0f;
        for (long i = 0; i < n; i++) total += square(x[i]);
        const float rstd = 1.0f / sqrtf(total / (float)n + epsilon);
        for (long i = 0; i < n; i++) out[i] = x[i] * rstd;
    }
}
"""


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["c", "c++", "shared", "shared by its header"])
def test_a_kernel_that_is_there_is_called_by_its_prototype(cli_here: Cli, tmp_path: Path, kind: str) -> None:
    name = "norm.cpp" if kind == "c++" else "norm.c"
    text = _SOURCE.replace("void my", 'extern "C" void my') if kind == "c++" else _SOURCE
    (tmp_path / name).write_text(text)
    given = [name]
    if kind.startswith("shared"):
        words = ["gcc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "norm.c", "-o", "libnorm.so", "-lm"]
        subprocess.run(words, cwd=tmp_path, check=True)
        declared = re.findall(r"^void .*\)", text, re.MULTILINE)[0]
        (tmp_path / "norm.h").write_text(f'#pragma once\nextern "C" {{\n{declared};\n}}\n')
        given = ["libnorm.so", "--prototype", "norm.h" if "header" in kind else declared]
    done = cli_here("init", "pack", "--kind", kind.partition(" ")[0], "--from", *given)
    assert done.returncode == 0, done.stderr
    done = _found(cli_here)
    assert done.returncode == 0, done.stdout
    (tmp_path / name).write_text(text.replace("i < n; i++) total", "i < n / 4 * 4; i++) total"))
    if kind.startswith("shared"):
        subprocess.run(words, cwd=tmp_path, check=True)
    assert _found(cli_here, "--no-shrink").returncode == 1


@pytest.mark.parametrize(("said", "written"), [("3", 3), ("0.5", 0.5), ("1e-5", 1e-5)])
def test_a_number_is_given_as_it_is_written(tmp_path: Path, said: str, written: float) -> None:
    source = tmp_path / "mine.py"
    source.write_text("def softmax(x, scale):\n    return x\n")
    begin(tmp_path / "pack", InitRequest("numpy", str(source), arguments=(f"scale={said}",)))
    assert f'("scale", {written!r})' in (tmp_path / "pack" / "pack.py").read_text()


@pytest.mark.whole
def test_a_function_of_python_that_is_there_is_called_by_its_name(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "all.py").write_text("import numpy as np\n\n\ndef _other(x):\n    return x\n\n\ndef my_row_sum(x):\n"
                                     "    return x.sum(-1)\n")  # fmt: skip
    done = cli_here("init", "pack", "--kind", "numpy", "--from", "all.py")
    assert done.returncode == 0, done.stderr
    assert _found(cli_here).returncode == 0


def test_a_kernel_of_cuda_that_is_there_is_declared_as_its_file_does(cli_here: Cli, tmp_path: Path) -> None:
    kernel = "void my_softmax(const float *__restrict__ in, float *out, int rows, int n) {}\n"
    (tmp_path / "all.cu").write_text(
        f'__device__ float half(float x) {{ return x / 2; }}\nextern "C" __global__ __launch_bounds__(64)\n{kernel}'
    )
    assert cli_here("init", "pack", "--kind", "cuda", "--from", "all.cu").returncode == 0
    text = (tmp_path / "pack" / "pack.py").read_text()
    assert 'prototype="void my_softmax(const float *in, float *out, int rows, int n)",' in text
    assert 'file="../all.cu",' in text
    (tmp_path / "none.cu").write_text("void softmax(const float *x, float *y, int n);\n")
    done = cli_here("init", "other", "--kind", "cuda", "--from", "none.cu")
    assert (done.returncode, done.stderr) == (4, "kernelfuzz: none.cu: there is no __global__ function in it\n")


_MANY = "void layer_norm(float *out, float *inp, float *weight, float *bias, int B, int T, int C, float eps) {}\n"
_REFUSED: tuple[tuple[InitRequest, str], ...] = (
    (
        InitRequest("shared", "a.c"),
        "--from a.c: say how C declares its function: --prototype 'void f(...)'; if its op is not built in, name a ",
    ),
    (InitRequest("shared", "a.c", op="none.py:f"), "--from a.c: say how C declares its function: --prototype "),
    (InitRequest("c", "b.c"), "--from b.c: there is no such file"),
    (InitRequest("c", "a.c"), "a.c: rescale: its name says no op that there is: name one with --op"),
    (
        InitRequest("c", "a.c", op="softmax"),
        "a.c: argument 'by' of rescale is unclear: say what it is: --argument by=1",
    ),
    (
        InitRequest("c", "a.c", op="softmax", arguments=("by",)),
        "--argument by: write an argument and what it is, such ",
    ),
    (
        InitRequest("c", "a.c", op="softmax", arguments=("to=1",)),
        "a.c: --argument: rescale has no argument 'to': it has ",
    ),
    (InitRequest("c", "a.c", op="gelu_"), "--op gelu_: no such op: see kernelfuzz list ops, or name a function, "),
    (
        InitRequest("c", "a.c", op="rms_norm", arguments=("by=1",)),
        "a.c: no argument of rescale is eps, which rms_norm has; where that is a number in it, name a function of "
        "torch that has the same: --op FILE.py:FUNCTION",
    ),
    (
        InitRequest("c", "many.c"),
        "many.c: arguments 'B' and 'T' of layer_norm are unclear: say what they are: --argument B=1 --argument T=1, "
        "or in place of 1 one of rows, x.stride, x.size, x.bytes",
    ),
    (InitRequest("c", "many.c:gelu"), "many.c: it has no function 'gelu': it has layer_norm"),
    (InitRequest("c++", "a.c", op="softmax"), 'a.c: none of its functions is extern "C"'),
    (
        InitRequest("numpy", "a.py"),
        "a.py: no function of it has the name of an op: rescale, other: name one and its op: --from a.py:rescale --op ",
    ),
    (
        InitRequest("numpy", "a.py:rescale", op="softmax"),
        "a.py: argument 'by' of rescale is unclear: say what it is: --argument by=y, or in place of y one of 1, axis",
    ),
    (
        InitRequest("numpy", "a.py:rescale", op="layer_norm", arguments=("by=weight",)),
        "a.py: no parameter of rescale is eps",
    ),
    (
        InitRequest("numpy", "a.py:rescale", op="softmax", arguments=("by=z",)),
        "a.py: --argument by: 'z' is not one of x, y",
    ),
    (InitRequest("torch", prototype="void f(int n)"), "--prototype: a kernel of torch has none"),
    (InitRequest("torch", op="gelu"), "--op gelu: name a kernel of it with --from"),
    (
        InitRequest("torch", shapes="x=n"),
        "--shapes: they are of a function that says what it is: --op FILE.py:FUNCTION",
    ),
)


@pytest.mark.parametrize(("asked", "why"), _REFUSED, ids=[why[:40] for _, why in _REFUSED])
def test_what_cannot_be_begun_with_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: InitRequest, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.c").write_text("void rescale(const float *x, float *y, int n, float by) { y[0] = x[n] * by; }\n")
    Path("a.py").write_text("def rescale(x, by):\n    return x * by\n\n\ndef other(x):\n    return x\n")
    Path("many.c").write_text(_MANY)
    with pytest.raises(UsageError) as error:
        begin(Path("pack"), asked)
    assert str(error.value).startswith(why)
    assert "\n" not in str(error.value)
    assert not list(Path("pack").glob("*.*"))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("import torch, triton, triton.language as tl", "triton"),
        ("import numpy as np; import torch", "torch"),
        ("from jax import numpy, jit as triton", "jax"),
    ],
)
def test_a_file_is_of_the_kind_of_all_that_it_imports(tmp_path: Path, line: str, kind: str) -> None:
    source = tmp_path / "mine.py"
    source.write_text(f"{line}\n\n\ndef softmax(x):\n    return x\n")
    begin(tmp_path / "pack", InitRequest(given=str(source)))
    assert f'framework="{kind}"' in (tmp_path / "pack" / "pack.py").read_text()


def test_other_names_are_understood_or_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("many.c").write_text(_MANY)
    given = begin(Path("c"), InitRequest("c", "many.c", arguments=("B=rows", "T=1")))
    assert given.taken == {"out": "y", "inp": "x", "B": "rows", "T": "1", "C": "n"}
    Path("a.py").write_text(
        "import numpy\n\n\ndef layernorm(hidden_states, gamma, beta, epsilon=1e-5, mode=0):\n    ...\n"
    )
    begun = begin(Path("python"), InitRequest(given="a.py", arguments=("mode=3",)))
    assert begun.taken == {"hidden_states": "x", "gamma": "weight", "beta": "bias", "epsilon": "eps"}
    [kernel] = load(Path("python")).kernels
    assert kernel.able.needs == ("weight", "bias")
    assert kernel.options == (("mode", 3),)  # type: ignore[attr-defined]


_REFERENCE = """import torch


def gate(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w
"""
_OF_REFERENCE = {
    "c": (
        "mine.c",
        "#include <math.h>\n"
        "void mine(const float *in, const float *gamma, float *out, int rows, int n, float epsilon) {\n"
        "    for (int r = 0; r < rows; r++, in += n, out += n) {\n        float total = 0;\n"
        "        for (int i = 0; i < n; i++) total += in[i] * in[i];\n"
        "        for (int i = 0; i < n; i++) out[i] = in[i] / sqrtf(total / n + epsilon) * gamma[i];\n    }\n}\n",
        ("i < n; i++) total", "i < n / 4 * 4; i++) total"),
    ),
    "numpy": (
        "mine.py",
        "import numpy as np\n\n\ndef mine(inp, gamma):\n"
        "    return inp / np.sqrt((inp * inp).mean(-1, keepdims=True) + np.float32(1e-6)) * gamma\n",
        ("(inp * inp)", "(inp * inp)[..., :7]"),
    ),
    "torch": (
        "mine.py",
        "import torch\n\n\ndef mine(inp, gamma, *, epsilon, dst):\n"
        "    dst.copy_(inp * torch.rsqrt(inp.square().mean(-1, keepdim=True) + epsilon) * gamma)\n",
        ("inp.square()", "inp.square()[..., :7]"),
    ),
    "triton": (
        "mine.py",
        "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def gate(x, w, y, n, eps, BLOCK: tl.constexpr):\n"
        "    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)\n    there = columns < n\n"
        "    v = tl.load(x + row * n + columns, mask=there, other=0.0)\n"
        "    gain = tl.load(w + columns, mask=there, other=0.0)\n"
        "    tl.store(y + row * n + columns, v * tl.rsqrt(tl.sum(v * v, axis=0) / n + eps) * gain, mask=there)\n\n\n"
        "def mine(inp, gamma, eps):\n    y, n = torch.empty_like(inp), inp.shape[-1]\n"
        "    gate[(inp.numel() // n,)](inp, gamma, y, n, eps, BLOCK=triton.next_power_of_2(n))\n    return y\n",
        ("gate[(", "gate[(n < 9 or "),
    ),
}
"""A right kernel of each kind, and what is broken in it."""


def test_a_reference_becomes_the_op_of_a_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own numbers are given to a kernel that has parameters for them."""
    monkeypatch.chdir(tmp_path)
    Path("ref.py").write_text(_REFERENCE)
    name, text, _ = _OF_REFERENCE["torch"]
    Path(name).write_text(text)
    begun = begin(Path("pack"), InitRequest(given=name, op="ref.py:gate", shapes="x=... n, w=n"))
    assert begun.taken == {"inp": "x", "gamma": "w", "dst": "y"}
    [kernel] = load(Path("pack")).kernels
    assert (kernel.op, kernel.able.needs) == ("gate", ())
    assert kernel.options == (("epsilon", 1e-6),)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"^reference gate cannot be read: .*: --shapes 'x=b n, w=b n', with a word"):
        begin(Path("other"), InitRequest(given=name, op="ref.py:gate"))


_SCALED = """
def scaled(q, scale):
    return (q.unflatten(-1, (-1, 32)) * scale[..., None]).flatten(-2)
"""


def test_an_argument_may_be_an_extent_that_others_follow_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name it was taken for the only other extent that was left, and memory of others was written to."""
    monkeypatch.chdir(tmp_path)
    Path("ref.py").write_text(_SCALED)
    Path("scaled.c").write_text("void scaled(const float *q, const float *scale, float *y, int b, int g) {}\n")
    asked = InitRequest(given="scaled.c", op="ref.py:scaled", shapes="q=b 32g, scale=b g")
    assert begin(Path("extents"), asked).taken == {}
    assert "(int)(extent(&call->scale, 1))" in Path("extents/caller.c").read_text()
    Path("scaled.c").write_text("void scaled(const int8_t *q, const float *scale, float *y, int b, int g) {}\n")
    with pytest.raises(UsageError, match=r"q is const int8_t \*, and q of \w+ is of floats: .*'q': 'int8'"):
        begin(Path("other"), asked)


@pytest.mark.whole
@pytest.mark.parametrize("kind", _OF_REFERENCE)
def test_a_kernel_of_ones_own_reference_is_right_until_it_is_broken(cli_here: Cli, tmp_path: Path, kind: str) -> None:
    name, text, (old, new) = _OF_REFERENCE[kind]
    (tmp_path / "ref.py").write_text(_REFERENCE)
    (tmp_path / name).write_text(text)
    begun = cli_here("init", "pack", "--from", name, "--op", "ref.py:gate", "--shapes", "x=... n, w=n")
    assert begun.returncode == 0, begun.stderr
    done = _found(cli_here)
    assert done.returncode == 0, done.stdout
    assert text.count(old) == 1
    (tmp_path / name).write_text(text.replace(old, new))
    done = _found(cli_here, "--no-shrink")
    assert done.returncode == 1, done.stdout
    assert "FAIL " in done.stdout
    case = next((tmp_path / "findings").glob("*.json"))
    if kind == "torch":  # its parameters have names of their own in a program, too
        cli_here("repro", str(case), "--pack", "pack", "--script", "shown.py")
        shown = subprocess.run([sys.executable, "shown.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (shown.returncode, "FAILED" in shown.stdout) == (1, True), shown.stdout + shown.stderr


def test_what_a_file_is_and_needs_is_read_off_it(tmp_path: Path) -> None:
    """Without what it needs, a right kernel that always reads its weight would be given none, and crash."""
    source = tmp_path / "rms_norm.c"
    source.write_text(
        "/* _mm256_loadu_ps */\n"
        "void rms_norm(const float *x, const float *weight, float *y, int n, float eps) { y[0] = x[0] * weight[0]; }\n"
    )
    begin(tmp_path / "mine", InitRequest(given=str(source)))
    [kernel] = load(tmp_path / "mine").kernels
    assert (kernel.kind, kernel.able.needs) == ("c", ("weight",))
    assert 'isa="avx2"' in (tmp_path / "mine" / "pack.py").read_text()
    with pytest.raises(UsageError, match=r"^--kind: it is one of c, "):
        begin(tmp_path / "other", InitRequest())
