"""Functions of shared libraries, called by lines of C that are written from their prototypes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzz
from fuzz.core.adapters.pack import PackError, load
from fuzz.core.adapters.prototyped_kernel import SharedKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.forms import FORM, RIGHT, built, pack, softmax
from fuzz.tests.conftest import Cli

_ARM = "aarch64-linux-gnu-"


def _target(kernel: SharedKernel) -> Target:
    [target] = expand([kernel])
    return target


def _ran(target: Target, cache: Path) -> tuple[NotRun | Attestation, list[float]]:
    """What its worker says of itself, and what it makes of a row of two zeros, if it runs."""
    case = Case("softmax", {"axis": 1}, {"x": Tensor("f32", contiguous((1, 2)), bytes(8))},
                {"y": Output("f32", contiguous((1, 2)))})  # fmt: skip
    with WorkerPool([target], cache=cache) as pool:
        [outcomes] = pool.submit([case]).outcomes()
    found = outcomes.get(target.id)
    values = [] if found is None or not found.outputs else np.frombuffer(found.outputs["y"], "<f4").tolist()
    return pool.statuses[target.id], values


def test_a_function_of_a_library_is_called_and_the_library_attested(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without a folder is that of a file, and not one of the system's libraries."""
    library = built(tmp_path)
    monkeypatch.chdir(library.parent)
    said, values = _ran(_target(softmax(Path(library.name))), cache)
    assert values == [0.5, 0.5]
    assert isinstance(said, Attestation)
    assert re.search(r"on hardware, libforms\.so [0-9a-f]{16}$", said.words)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ((1, 1, 62, 0), "lib.so is 32-bit code for x32, and a worker here is 64-bit code for "),
        ((2, 1, 2, 1), "lib.so is 64-bit code for loongarch64, and a worker here is 64-bit code for "),
        ((2, 1, 99, 0), "lib.so is 64-bit code for a machine that is not known here, and a worker"),
    ],
)
def test_a_library_of_another_machine_does_not_run_and_says_why(
    tmp_path: Path, head: tuple[int, int, int, int], why: str
) -> None:
    """Its head has the class, the byte order, and the machine in two bytes."""
    found = bytearray(b"\x7fELF\x02\x01\x01" + bytes(57))
    found[4], found[5], found[16], found[18], found[19] = *head[:2], 3, *head[2:]
    (tmp_path / "lib.so").write_bytes(found)
    assert str(_target(softmax(tmp_path / "lib.so")).unavailable()).startswith(why)


def test_what_is_yet_to_be_fetched_does_not_run_and_says_how_it_is_got(tmp_path: Path) -> None:
    declared = "from fuzz import SharedKernel\n"
    declared += 'KERNELS = (SharedKernel("s", "softmax", "no.so", "void s(const float *x, float *y, int n)"{}),)\n'
    (tmp_path / "pack.py").write_text(declared.format(', fetch="sh get"'))
    [kernel] = load(tmp_path).kernels
    assert _target(kernel).unavailable() == "no.so is not here: sh get"  # type: ignore[arg-type]
    (tmp_path / "pack.py").write_text(declared.format(""))
    with pytest.raises(PackError, match=r"no\.so does not exist"):
        load(tmp_path)


def _lacking(folder: Path) -> Path:
    """A library that needs another one, which is gone."""
    (folder / "one.c").write_text("float one(float x) { return x; }\n")
    (folder / "two.c").write_text("float one(float); float softmax_f32(float x) { return one(x); }\n")
    for words in (("one.c", "-o", "libone.so"), ("two.c", "-o", "libtwo.so", "-L.", "-lone")):
        subprocess.run(["gcc", "-shared", "-fPIC", *words], cwd=folder, check=True)
    (folder / "libone.so").rename(folder / "libgone.so")
    return folder / "libtwo.so"


def test_what_cannot_be_called_says_why(tmp_path: Path, cache: Path) -> None:
    forms, lacking = built(tmp_path), _lacking(tmp_path)
    text = tmp_path / "text.so"
    text.write_text("no library at all\n")
    for kernel, why in (
        (softmax(forms, "softmax_f23"), "libforms.so: it has no function 'softmax_f23': did you mean 'softmax_f32'?"),
        (
            softmax(lacking),
            "libtwo.so: it needs libone.so, which is not found: name it with before=(...), or set its rp",
        ),
        (softmax(text), f"{text} is no library: neither an archive nor a shared library of ELF"),
    ):
        said, values = _ran(_target(kernel), cache)
        assert isinstance(said, NotRun)
        assert said.broken
        assert said.reason.startswith(why), said.reason
        assert not values


@pytest.mark.whole
def test_what_a_library_lacks_is_loaded_before_it(tmp_path: Path, cache: Path) -> None:
    lacking = _lacking(tmp_path)
    subprocess.run(["gcc", "-shared", "-fPIC", "one.c", "-Wl,-soname,libone.so", "-o", "libgone.so"], cwd=tmp_path,
                   check=True)  # fmt: skip
    said, _ = _ran(_target(replace(softmax(lacking), before=(tmp_path / "libgone.so",))), cache)
    assert isinstance(said, Attestation)


_UNCLEAR: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("void f(const float *x, float *y, int n, int k)", {}, "prototype: argument 'k' of f is unclear: say what it is"),
    ("void f(const float *p, const float *q, float *y, int n)", {},
     "prototype: arguments 'p' and 'q' of f are unclear: say what they are, arguments={\"p\": \"x\", "),
    ("void f(const float *x, float *y, int n, float alpha)", {}, "prototype: argument 'alpha' of f is unclear"),
    ("void f(const float *x, float *y)", {}, "prototype: no argument of f is the extent 'n'"),
    ("void f(float *y, int n)", {}, "prototype: no argument of f is x, which softmax has"),
    ("int f(const float *x, float *y, int n)", {}, "returns: f returns int: say what that is with one of status, noth"),
    ("void f(const float *x, float *y, int n)", {"returns": "status"}, "returns: f returns nothing"),
    ("void f(const float *x, float *y, int n)", {"arguments": {"m": "n"}}, "arguments: f has no argument 'm'"),
    ("void f(const float *x, float *y, int n)", {"arguments": {"n": "q"}}, "arguments: n: 'q' is not one of x, y, n"),
    ("void f(const float *x, float *y, int n)", {"arguments": {"n": "x"}}, "arguments: n: x is a tensor, and n is "),
    ("void f(const float *x, const float *y, int n)", {}, "arguments: y: y is an output, and y"),
    ("void f(const short *x, short *y, int n)", {}, "capabilities.dtypes: x is const short *, not f32, nor of any "),
    ("void f(const int *x, int *y, int n)", {}, "capabilities.dtypes: x is const int *, not f32, nor of any dt"),
    ("void f(const uint16_t *x, uint16_t *y, int n)", {},
     "capabilities.dtypes: x is const uint16_t *, not f32: declare some of f16, bf16"),
    ("void f(const float *x, float *y, int n)", {"capabilities": fuzz.Capabilities(axis="any")}, "capabilities.axis: "),
    ("void f(const float *x, float *y, int n, int rows)", {"capabilities": fuzz.Capabilities(strides="rows")},
     "capabilities.strides: 'rows': the arguments of f tell it of 'contiguous' at most"),
    ("void f(const float *x, float *y, int n", {}, "prototype: 'void f(const float *x, float *y, int n' is not C"),
    ("void f(const float *, float *y, int n)", {}, "prototype: argument 1, 'const float *': write its type and a name"),
    ("void f(const float **x, float *y, int n)", {}, "prototype: 'const float **' points at pointers"),
    ("void f(const float *x, float *y, my_size n)", {}, "prototype: argument 'n': my_size is no pointer and no type"),
    ("float *f(const float *x, int n)", {}, "prototype: f returns float *: only void, float, double or an integer"),
)  # fmt: skip


@pytest.mark.parametrize(("prototype", "more", "why"), _UNCLEAR, ids=[str(at) for at in range(len(_UNCLEAR))])
def test_what_is_unclear_is_one_line(prototype: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError) as error:
        SharedKernel("mine", "softmax", "lib.so", prototype, **more).check_op()
    assert str(error.value).startswith(why)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("op", "prototype", "meanings"),
    [
        ("softmax", "void f(const float *src, float *dst, size_t size)", "x y n"),
        ("softmax", "void f(float *restrict y, const float x[], unsigned nrows, int cols)", "y x rows n"),
        ("rms_norm", "void f(float *out, const float *x, const float *weight, float epsilon, int len)",
         "y x weight eps n"),
        ("rms_norm", "void f(float *y, int stride_y, const float *x, int ldx, float eps, int n)",
         "y y.stride x x.stride eps n"),
        ("matmul", "void f(long m, long n, long k, const float *a, const float *b, float *c)", "m n k a b c"),
        ("matmul", "void f(const float *A, const float *B, float *C, int M, int N, int K)", "a b c m n k"),
        ("layer_norm", "void f(float *out, const float *inp, const float *gamma, const float *beta, int N, int D, "
         "float e)",
         "y x weight bias rows n eps"),
        ("softmax", "void f(const float *in, int ld_in, float *out, int out_stride, int rows, int cols)",
         "x x.stride y y.stride rows n"),
    ],
)  # fmt: skip
def test_arguments_are_found_by_their_names_and_by_what_is_left(op: str, prototype: str, meanings: str) -> None:
    kernel = SharedKernel("mine", op, "lib.so", prototype)
    kernel.check_op()
    assert [kernel.binding.meanings[each.name] for each in kernel.function.arguments] == meanings.split()


@pytest.mark.whole
def test_each_form_is_right_and_each_fault_is_found(tmp_path: Path, cli_here: Cli) -> None:
    folder = pack(tmp_path / "pack", RIGHT)
    built(folder, flags=("-ffp-contract=off",))
    done = cli_here("run", "--pack", str(folder), "--max-cases", "300", "--seed", "2", "-j", "1")
    assert done.returncode == 0, done.stdout
    wrong = ("prints", "exits", "hangs", "reads_past", "crashes", "drops_tail")
    pack(
        folder, "".join(f"SharedKernel({name!r}, 'softmax', 'libforms.so', {FORM.format(name)!r}), " for name in wrong)
    )
    done = cli_here("run", "--pack", str(folder), "--max-cases", "120", "--seed", "2", "-j", "1", "--explain-time",
                    "1s", "--json", str(tmp_path / "found.json"))  # fmt: skip
    assert done.returncode == 1
    found = {each["kernel"]: each["verdict"] for each in _records(tmp_path / "found.json", "finding")}
    assert found.pop("drops_tail") in ("FAIL_NUMERIC", "FAIL_NONFINITE")
    assert found == {"exits": "CRASH", "hangs": "TIMEOUT", "reads_past": "FAIL_MEMORY", "crashes": "CRASH"}


def _records(path: Path, kind: str) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, path.read_text().splitlines()) if each["kind"] == kind]


@pytest.mark.whole
@pytest.mark.skipif(shutil.which(f"{_ARM}gcc") is None, reason="apt-get install gcc-aarch64-linux-gnu")
def test_a_library_of_another_architecture_runs_under_its_emulator(tmp_path: Path, cache: Path) -> None:
    library = built(tmp_path, prefix=_ARM)
    for isa, places in (
        ("runtime", ["qemu"]),
        ("sve", [f"qemu:vl={bits}" for bits in (128, 256, 384, 512, 1024, 2048)]),
    ):
        targets = expand([replace(softmax(library), isa=isa)])
        assert [target.name.where for target in targets] == places
    said, values = _ran(_target(softmax(library)), cache)
    assert values == [0.5, 0.5]
    assert isinstance(said, Attestation)
    assert said.words.startswith("aarch64 emulated, libforms.so ")
    [*_, longest] = expand([replace(softmax(library), isa="sve")])
    assert _ran(longest, cache)[1] == [0.5, 0.5], "whatever the lines that call it were compiled for"


@pytest.mark.whole
def test_a_finding_is_a_program_that_loads_the_library(tmp_path: Path, cli_here: Cli) -> None:
    folder = pack(tmp_path / "pack", f"SharedKernel('drops', 'softmax', 'libforms.so', {FORM.format('drops_tail')!r}),")
    built(folder)
    words = ("--pack", str(folder))
    cli_here("run", *words, "--max-cases", "40", "--seed", "2", "-j", "1", "--explain-time", "1s")
    [case, *_] = sorted((tmp_path / "findings").glob("*.json"))
    script = tmp_path / "repro.c"
    assert cli_here("repro", str(case), *words, "--script", str(script)).returncode in (0, 1)
    compiled = re.search(r"^ \*\s+(gcc .*)$", script.read_text(), re.MULTILINE)
    assert compiled is not None
    subprocess.run(compiled[1], shell=True, cwd=tmp_path, check=True)
    assert subprocess.run(["./repro"], cwd=tmp_path, check=False, capture_output=True).returncode == 1
