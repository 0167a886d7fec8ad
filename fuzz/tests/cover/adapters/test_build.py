"""Builds: cached by content, compile errors whole, edits exactly once."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters import build
from fuzz.core.adapters.build import Builder, BuildError, CacheError, edited_source
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.execute.pool import WorkerPool
from fuzz.report.outline import Broken
from fuzz.tests.common.planted import c_program, c_target

KERNEL = '#include "kernelfuzz.h"\n#include "part.h"\nint kf_rms_norm(const kf_rms_norm_call *c) { return PART; }\n'


@pytest.fixture
def target(tmp_path: Path) -> Target:
    source = tmp_path / "pack" / "kernel.c"
    source.parent.mkdir()
    source.write_text(KERNEL)
    source.with_name("part.h").write_text('#include "inner.h"\n')
    source.with_name("inner.h").write_text("#define PART KF_REJECTED\n")
    return c_target(CKernel("small", "rms_norm", source), "native")


def test_a_cache_hit_does_not_compile(target: Target, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = c_program(target, Builder(own_cache))
    monkeypatch.setattr(build.Builder, "_compile", lambda _, command: pytest.fail(f"compiled again: {command}"))
    assert c_program(target, Builder(own_cache)) == built


def test_two_that_need_the_same_file_make_it_once(target: Target, tmp_path: Path) -> None:
    """Each builder has a lock file of its own open, as another process would."""
    made = list[Path]()

    def slowly(output: Path) -> list[list[str]]:
        made.append(output)
        return [["sh", "-c", f"sleep 0.2; echo whole > {output}"]]

    with ThreadPoolExecutor(3) as threads:
        built = [threads.submit(Builder(tmp_path).compiled, "one", slowly) for _ in range(3)]
    assert {each.result().read_text() for each in built} == {"whole\n"}
    assert len(made) == 1
    assert sorted(path.name for path in tmp_path.glob("one*")) == ["one", "one.sha256"]


def test_a_process_that_does_not_go_on_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_PATIENCE_S", 0.05)
    with (tmp_path / "one.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        built = Builder(tmp_path).compiled("one", lambda output: [["touch", str(output)]])
    assert built.read_bytes() == b""


def test_everything_that_decides_the_code_is_in_the_digest(target: Target, own_cache: Path) -> None:
    builder = Builder(own_cache)
    kernel = target.kernel
    variants = [
        target,
        c_target(kernel, "native", "O0"),
        c_target(replace(kernel, flags=("-DX",)), "native"),
        c_target(replace(kernel, edits=(("return PART", "return 1 + PART"),)), "native"),
    ]
    digests = [c_program(variant, builder).digest for variant in variants]
    kernel.source.with_name("inner.h").write_text("#define PART KF_OK\n")
    assert c_program(target, builder).digest == digests[0], "what is saved during a run is of the next run"
    digests.append(c_program(c_target(replace(kernel), "native"), builder).digest)
    assert len(set(digests)) == len(digests)


def test_nothing_half_written_stays_in_the_cache(target: Target, own_cache: Path) -> None:
    c_program(target, Builder(own_cache))
    assert sorted(path.name.split("-")[0] for path in own_cache.iterdir() if not path.suffix) == [
        "entry",
        "parts",
        "worker",
    ]
    assert {path.suffix for path in own_cache.iterdir()} == {"", ".sha256"}


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(range(256)) * 40)


def one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("something")


@pytest.mark.some(1)
@pytest.mark.parametrize(("what", "damage"), [("worker", a_folder), ("worker", one_bit), ("parts", emptied)])
def test_a_damaged_cache_is_said_set_aside_and_made_anew(
    target: Target, own_cache: Path, what: str, damage: Callable[[Path], None]
) -> None:
    target.kernel.source.with_name("inner.h").write_text("#define PART KF_OK\n")
    cache = own_cache
    built = c_program(target, Builder(cache))
    [path] = [path for path in cache.glob(f"{what}-*") if not path.suffix]
    good = path.read_bytes()
    damage(path)
    if what != "worker":  # they are needed again where the worker is gone
        built.path.unlink()
    builder = Builder(cache)
    assert c_program(target, builder) == built
    [said] = builder.notices
    assert said.startswith(f"{path}: damaged; it is kept as {path.name}.broken-1")
    assert path.with_name(f"{path.name}.broken-1").exists()
    assert path.read_bytes() == good, "the same sources give the same file"
    with WorkerPool([target], cache=cache) as pool:
        assert not pool.notices
        assert isinstance(pool.statuses[target.id], Attestation)


def test_a_damaged_source_of_a_python_kernel_is_made_anew(tmp_path: Path) -> None:
    path = Builder(tmp_path).text("python-abc", "k.py", "def f(): ...\n")
    for damage in (emptied, a_folder):
        damage(path)
        builder = Builder(tmp_path)
        assert builder.text("python-abc", "k.py", "def f(): ...\n").read_text() == "def f(): ...\n"
        assert len(builder.notices) == 1


def test_a_compile_error_is_shown_whole(target: Target, own_cache: Path) -> None:
    target.kernel.source.write_text("this is no C\n#error and this is the end\n")
    with WorkerPool([target], cache=own_cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert re.fullmatch(rf"it does not compile: {target.kernel.source}:\d+:\d+: error: .*", status.reason)
    message = status.broken
    assert "gcc" in message.splitlines()[1]
    assert str(target.kernel.source) in message
    assert "and this is the end" in message
    assert not list(own_cache.glob("worker-*"))


OTHER = "void kf_rms_norm(const float *x, float *y, int n, float eps) { y[0] = x[n - 1] + eps; }\n"
ENTRY = "kernelfuzz: the entry is int kf_rms_norm(const kf_rms_norm_call *call); what it is given: kernelfuzz header"


@pytest.mark.parametrize(
    ("source", "noted"),
    [
        ('#include "kernelfuzz.h"\n' + OTHER, 1),
        (OTHER, 1),  # nothing that it includes says so: it would be called with anything
        ("int rms_norm(void) { return 0; }\n", 1),
        (KERNEL.replace("PART", "c->wieght.rank"), 1),
        (KERNEL.replace("PART", "oops"), 0),
    ],
    ids=["another signature", "no header", "no entry", "no such member", "another error"],
)
def test_an_entry_of_another_signature_is_told_the_right_one_once(target: Target, source: str, noted: int) -> None:
    target.kernel.source.write_text(source)
    with pytest.raises(BuildError) as caught:
        c_program(target, Builder())
    assert str(caught.value).count(ENTRY) == noted
    assert ENTRY not in caught.value.reason
    many = "\n".join([caught.value.reason.partition(": ")[2], *"x" * 20, str(caught.value)])
    shown = Broken("small", (target.id,), caught.value.reason, many).text("elsewhere", whole=False)
    assert shown.count(ENTRY) == noted
    assert "  all of it     elsewhere" in shown


def test_one_error_has_one_text_every_time(target: Target, own_cache: Path) -> None:
    """Neither the scratch folder, where an edited source lies, nor the compiler's own objects are named."""
    target.kernel.source.write_text(KERNEL.replace("return PART", "int nowhere(void); return nowhere()"))
    missing = ("nowhere()", "oops()")
    for edits in ((), (missing,)):
        broken = replace(target, kernel=replace(target.kernel, edits=edits))
        texts = set()
        for _ in range(2):
            with pytest.raises(BuildError) as caught:
                c_program(broken, Builder(own_cache))
            texts.add(str(caught.value))
        assert len(texts) == 1, texts
        assert caught.value.reason.startswith("it does not compile: ")


def test_an_unusable_cache_is_one_clear_line(target: Target, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match=r"cannot write the build cache .*KERNELFUZZ_CACHE") as caught:
        c_program(target, Builder(tmp_path / "file" / "cache"))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("old", "times"), [("nowhere", 0), ("return", 1), ("kf_rms_norm", 2)])
def test_an_edit_fits_exactly_once(target: Target, old: str, times: int) -> None:
    edited = replace(target.kernel, edits=((old, "new"),))
    if times == 1:
        assert edited_source(edited) == KERNEL.replace("return", "new")
        return
    with pytest.raises(BuildError, match=f"fits {times} times"):
        edited_source(edited)


def test_a_missing_source_is_clear(target: Target, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"cannot read .*absent\.c"):
        c_program(replace(target, kernel=replace(target.kernel, source=tmp_path / "absent.c")), Builder())


def test_the_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELFUZZ_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert build.cache_directory() == Path("/a")
    monkeypatch.delenv("KERNELFUZZ_CACHE")
    assert build.cache_directory() == Path("/b/kernelfuzz")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert build.cache_directory() == Path.home() / ".cache" / "kernelfuzz"
