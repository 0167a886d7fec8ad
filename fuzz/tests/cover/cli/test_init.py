"""A pack to begin with: it runs as it is written, and finds what is broken in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from fuzz.adapters.cuda import no_cuda_device
from fuzz.adapters.pack import load
from fuzz.base.errors import UsageError
from fuzz.tests.conftest import Cli
from fuzz.uses.beginning.written import Beginning, begin

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
    assert "nothing found: " in done.stdout
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


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--kind", "shared", "--from", "a.c"], "--from a.c: say how C declares its function: --prototype "),
        (["--kind", "c", "--from", "b.c"], "--from b.c: there is no such file"),
        (["--kind", "c", "--from", "a.c"], "a.c: rescale: its name says no op that there is: name one with --op"),
        (["--kind", "c", "--from", "a.c", "--op", "softmax"], "a.c: prototype: argument 'by' of rescale is unclear"),
        (["--kind", "c++", "--from", "a.c", "--op", "softmax"], 'a.c: none of its functions is extern "C"'),
        (["--kind", "numpy", "--from", "a.py"], "a.py: no function of it has the name of an op: rescale"),
        (["--kind", "numpy", "--from", "a.py", "--op", "softmax"], "pack/pack.py: kernel rescale: a.py line 1: "),
        (["--kind", "torch", "--prototype", "void f(int n)"], "--prototype: a kernel of torch has none"),
        (["--kind", "torch", "--op", "gelu"], "--op gelu: name a kernel of it with --from"),
    ],
)  # fmt: skip
def test_what_cannot_be_begun_with_is_one_line(cli_here: Cli, tmp_path: Path, arguments: list[str], why: str) -> None:
    (tmp_path / "a.c").write_text("void rescale(const float *x, float *y, int n, float by) { y[0] = x[n] * by; }\n")
    (tmp_path / "a.py").write_text("def rescale(x, by):\n    return x * by\n")
    done = cli_here("init", "pack", *arguments)
    assert done.returncode == 4
    assert done.stderr.startswith(f"kernelfuzz: {why}"), done.stderr
    assert not list((tmp_path / "pack").glob("*.*"))


def test_what_a_file_is_and_needs_is_read_off_it(tmp_path: Path) -> None:
    """Without what it needs, a right kernel that always reads its weight would be given none, and crash."""
    source = tmp_path / "rms_norm.c"
    source.write_text(
        "/* _mm256_loadu_ps */\n"
        "void rms_norm(const float *x, const float *weight, float *y, int n, float eps) { y[0] = x[0] * weight[0]; }\n"
    )
    begin(tmp_path / "mine", Beginning("", source))
    [kernel] = load(tmp_path / "mine").kernels
    assert (kernel.kind, kernel.able.needs) == ("c", ("weight",))
    assert 'isa="avx2"' in (tmp_path / "mine" / "pack.py").read_text()
    with pytest.raises(UsageError, match=r"^--kind: it is one of c, "):
        begin(tmp_path / "other", Beginning(""))
