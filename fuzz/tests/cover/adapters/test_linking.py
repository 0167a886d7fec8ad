"""Kernels of several files, in C and C++, that call libraries: built, told apart, attributed, exported."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.campaign.reproducing import ChosenCase, write_script
from fuzz.core.adapters.build import Builder, BuildError
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.registry import adapter_of, expand
from fuzz.core.adapters.target import Attestation
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judgement
from fuzz.explain.attribute.attribution import attributed, witnesses
from fuzz.explain.causes import shared_cause
from fuzz.report.source import location_of
from fuzz.tests.common.hunting import failing
from fuzz.tests.common.linked_pack import ARM, EXPECTED, WRONG, archive, kernel, result_of, shared, write_sources
from fuzz.tests.common.planted import a_case, c_program, c_target
from fuzz.tests.common.programs import run_c, target_on, written
from fuzz.tests.conftest import Cli


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sources(tmp_path / "pack")


@pytest.fixture
def linked(folder: Path) -> CKernel:
    return kernel(folder, shared(folder, "scaled"), archive(folder, "squares"), "-lm")


def _break(folder: Path) -> None:
    source = folder / "lib" / "scaled.c"
    assert WRONG[0] in source.read_text()
    source.write_text(source.read_text().replace(*WRONG))


def test_sources_of_two_languages_and_two_libraries_are_one_kernel(linked: CKernel, cache: Path) -> None:
    assert result_of(c_target(linked, "native"), cache) == pytest.approx(EXPECTED)


def test_each_target_takes_the_archives_of_its_architecture(folder: Path, cache: Path) -> None:
    """C++ is not needed for that, nor installed for every architecture."""
    plain = write_sources(folder.with_name("plain"))
    (plain / "root.cpp").unlink()
    (plain / "root.c").write_text("#include <math.h>\nfloat inverse_root(float x) { return 1.0f / sqrtf(x); }\n")
    archives = [
        archive(each, name, prefix) for each, prefix in ((folder, ""), (plain, ARM)) for name in ("scaled", "squares")
    ]
    sources = tuple(plain / name for name in ("entry.c", "row.c", "root.c"))
    both = replace(kernel(plain, *archives, isa="runtime"), source=sources[0], sources=sources)
    for place in ("native", "qemu"):
        assert result_of(c_target(both, place), cache) == pytest.approx(EXPECTED)
    alone = c_target(replace(both, libraries=tuple(archives[:2])), "qemu")
    assert alone.unavailable() == "libscaled.a is not for aarch64: name a library that is"


def test_what_cannot_be_linked_does_not_run_and_says_why(linked: CKernel, folder: Path) -> None:
    emulated = c_target(replace(linked, isa="avx2"), "qemu")
    assert emulated.unavailable() == (
        "libscaled.so is a shared library, and what is emulated or sent elsewhere is linked statically: name an archive"
    )
    lost = replace(linked, libraries=("-lnowhere",))
    assert c_target(lost, "native").unavailable() == "g++ finds no libnowhere.so nor libnowhere.a: name it by its path"
    assert str(c_target(replace(lost, isa="avx2"), "qemu").unavailable()).startswith("g++ finds no libnowhere.a, and")


def test_a_compiler_of_cpp_that_is_missing_is_one_line(linked: CKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name.endswith("g++") else f"/usr/bin/{name}")
    assert c_target(linked, "native").unavailable() == "g++ is not installed (apt-get install g++)"
    for place in expand([replace(linked, isa="neon")]):
        assert "g++-aarch64-linux-gnu" in str(place.unavailable())


def test_a_library_that_another_one_alone_needs_is_found_where_it_lies(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "inner.c").write_text("float inner(float x) { return x; }\n")
    (tmp_path / "outer.c").write_text("float inner(float); float outer(float x) { return inner(x); }\n")
    (tmp_path / "entry.c").write_text(
        '#include "kernelfuzz.h"\nfloat outer(float);\n'
        "int kf_softmax(const kf_softmax_call *call) { *(float *)call->y.data = outer(1.0f); return KF_OK; }\n"
    )
    inner = ("inner.c", "-o", "libinner.so", "-Wl,-soname,libinner.so")
    for words in (inner, ("outer.c", "-o", "libouter.so", "-L.", "-linner")):
        subprocess.run(["gcc", "-shared", "-fPIC", *words], cwd=tmp_path, check=True)
    found = tuple(tmp_path / f"lib{name}.so" for name in ("outer", "inner"))
    target = c_target(CKernel("calls", "softmax", tmp_path / "entry.c", libraries=found), "native")
    with WorkerPool([target], cache=cache) as pool:
        assert isinstance(pool.statuses[target.id], Attestation)


def _of_a_header(folder: Path) -> None:
    path = folder / "lib" / "parts.h"
    path.write_text(path.read_text() + "/* more */\n")


def _of_a_source(folder: Path) -> None:
    path = folder / "root.cpp"
    path.write_text(path.read_text() + "/* more */\n")


def _of_an_archive(folder: Path) -> None:
    path = folder / "lib" / "squares.c"
    path.write_text(path.read_text().replace("total += x[i] * x[i]", "total += x[i] * x[i] + 1"))
    archive(folder, "squares")


def _of_a_library(folder: Path) -> None:
    _break(folder)
    shared(folder, "scaled")


@pytest.mark.whole
def test_every_file_is_in_the_identity_of_a_target(linked: CKernel, folder: Path, cache: Path) -> None:
    seen, files = [c_program(c_target(linked, "native"), Builder(cache))], adapter_of(linked).files(linked)
    for change in (_of_a_header, _of_a_source, _of_an_archive, _of_a_library):
        change(folder)
        again = replace(linked)
        seen.append(c_program(c_target(again, "native"), Builder(cache)))
        before, files = files, adapter_of(again).files(again)
        assert len({path for path, text in files.items() if before[path] != text}) == 1, change
    assert len({program.digest for program in seen}) == len({program.path for program in seen}) == len(seen)


def test_a_library_that_is_written_during_a_run_is_of_the_next_run(linked: CKernel, folder: Path, cache: Path) -> None:
    target = c_target(linked, "native")
    program = c_program(target, Builder(cache))
    _of_a_library(folder)
    with pytest.raises(OSError, match=r"libscaled\.so is not what it was when the session began"):
        program.process(1.0)
    program.path.unlink()
    with pytest.raises(BuildError, match=r"libscaled\.so is not what it was when the session began"):
        c_program(target, Builder(cache))


def test_a_bug_in_a_library_is_found_and_the_library_is_named(folder: Path, cache: Path) -> None:
    _break(folder)
    broken = kernel(folder, shared(folder, "scaled"), archive(folder, "squares"), "-lm")
    target = c_target(broken, "native")
    with WorkerPool([target], cache=cache) as pool:
        _, judgement = failing(pool, target, a_case())
    said = attributed(target, [target], {target.id: judgement}).cause
    assert said == "the libraries libscaled.so or libsquares.a, or its caller entry.c"
    other = replace(broken, name="other", sources=(folder / "other.c",), source=folder / "other.c")
    (folder / "other.c").write_text("int kf_rms_norm(void);\n")
    assert witnesses([broken, other]) == [frozenset({"other", "linked"})], "what they agree on, they say once"
    assert shared_cause([broken, other]).cause == "the shared library libscaled.so.1 or libsquares.a"


@pytest.mark.whole
def test_a_program_of_several_files_builds_and_shows_the_failure(folder: Path, tmp_path: Path) -> None:
    right = kernel(folder, archive(folder, "scaled"), archive(folder, "squares"))
    target, case = target_on(right, "native:gcc-O2"), a_case()
    (tmp_path / "right").mkdir()
    passing = Judgement(target.id, case.digest, Verdict.PASS)
    write_script(tmp_path / "right" / "repro.c", ChosenCase(case, None), passing, target)
    assert run_c(tmp_path / "right" / "repro.c") == (0, "passed\n")
    _break(folder)
    wrong = kernel(folder, shared(folder, "scaled"), archive(folder, "squares"))
    target = target_on(wrong, "native:gcc-O2")
    with WorkerPool([target]) as pool:
        _, judgement = failing(pool, target, case)
    code, said = run_c(written(tmp_path, "repro.c", case, judgement, target))
    assert (code, "FAILS: y[3]" in said) == (1, True), said
    edited = replace(wrong, edits=(("n + eps", "n - eps"),))
    with pytest.raises(UsageError, match="linked is an edited kernel of several files: use repro itself"):
        written(tmp_path, "repro.c", case, judgement, target_on(edited, "native:gcc-O2"))


def test_the_entry_is_found_in_whichever_file_it_is(linked: CKernel, folder: Path) -> None:
    turned = replace(linked, source=folder / "row.c")
    assert turned.written == tuple(folder / name for name in ("row.c", "entry.c", "root.cpp"))
    assert location_of(turned).path.endswith("entry.c")
    assert location_of(turned).line == 4


PACK = """from pathlib import Path
from fuzz import CKernel
here = Path(__file__).parent
KERNELS = (CKernel("linked", "rms_norm", {fields}),)
"""


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('sources=here / "entry.c"', "sources: write a tuple, sources=("),
        ('sources=("entry.c",)', "sources: write a path, Path(__file__).parent / 'entry.c'"),
        ('here / "entry.c", libraries="-lm"', "libraries: write a tuple, libraries=('-lm',)"),
        ('here / "entry.c", libraries=("libx.so",)', "libraries: write a path, Path(__file__).parent / 'libx.so'"),
        ('here / "entry.c", libraries=(here / "libx.so",)', "libx.so does not exist"),
        ('here / "entry.c", include=(here / "entry.c",)', "entry.c does not exist"),
        ('sources=(here / "entry.c", here / "none.cpp")', "none.cpp does not exist"),
        ('here / "entry.c", standard="C++17"', "standard: 'C++17' is no standard of C or C++"),
        ('here / "libx.so"', "libx.so is no file of C or C++"),
        ('isa="any"', "source: name the file that defines kf_rms_norm"),
    ],
)
def test_a_declaration_that_is_wrong_is_one_line(cli_here: Cli, folder: Path, fields: str, said: str) -> None:
    (folder / "pack.py").write_text(PACK.format(fields=fields))
    done = cli_here("list", "kernels", "--pack", str(folder))
    assert done.returncode == 4
    told = done.stderr.replace("\n    ", " ")
    assert said in told
    assert len(told.splitlines()) == 1, told


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('here / "entry.c"', r"it does not compile: \S*entry\.c:1:10: fatal error: parts\.h: No such file"),
        (
            'here / "entry.c", libraries=(here / "text.a",)',
            r"\S*text\.a is no library: neither an archive nor a shared",
        ),
    ],
)
def test_what_is_missing_in_a_build_is_one_line(cli_here: Cli, folder: Path, fields: str, said: str) -> None:
    (folder / "text.a").write_text("no library\n")
    (folder / "pack.py").write_text(PACK.format(fields=fields))
    done = cli_here("run", "--pack", str(folder), "--max-cases", "1")
    assert done.returncode == 1
    assert re.search(said, done.stdout), done.stdout


def test_a_wrong_standard_is_said_by_the_compiler(linked: CKernel, cache: Path) -> None:
    with pytest.raises(BuildError) as caught:
        c_program(c_target(replace(linked, standard="c++99"), "native"), Builder(cache))
    assert "c++99" in caught.value.reason
