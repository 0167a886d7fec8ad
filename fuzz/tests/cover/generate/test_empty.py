"""A kernel that takes no tensor without elements is given none, or must reject it where it promises to."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case, contiguous
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.sketch import ROWS, N
from fuzz.core.generate.space import space_of
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.examples import first_cases
from fuzz.tests.common.planted import HEAD, a_case, c_target
from oracles.tests.common.whole import quarter


def _kernel(**able: object) -> Kernel:
    capabilities = Capabilities(takes=("weight", "rstd"), **able)  # type: ignore[arg-type]
    return CKernel("k", "rms_norm", Path("k.c"), capabilities=capabilities)


def _cases(*kernels: Kernel, count: int = 300) -> list[Case]:
    return first_cases("rms_norm", 1, kernels, count=count)


def _is_empty(case: Case) -> bool:
    return case.inputs["x"].layout.size == 0


NO_ROWS, NO_COLUMNS = a_case(contiguous((0, 4))), a_case(contiguous((3, 0)))


def test_empty_tensors_are_taken_unless_it_is_declared_otherwise() -> None:
    for case in (NO_ROWS, NO_COLUMNS):
        assert _kernel().capability.is_dispatched(case)
        assert _kernel(outside="rejects").capability.accepts(case)
        assert _kernel(empty=False).capability.refusal(case) == "no elements"
        assert not _kernel(empty=False).capability.is_dispatched(case)
        assert _kernel(empty=False, outside="rejects").capability.is_dispatched(case)
    assert _kernel(empty=False).capability.accepts(a_case())


@pytest.mark.whole
def test_none_is_drawn_for_a_kernel_that_takes_none() -> None:
    kernel = _kernel(empty=False)
    assert not any(map(_is_empty, _cases(kernel)))
    space = space_of([kernel.capability])
    assert 0 not in space[N]
    assert 0 not in space[ROWS]
    others = _cases(kernel, _kernel(), count=1000)
    assert any(map(_is_empty, others)), "other kernels of the run keep theirs"
    assert not any(kernel.capability.is_dispatched(case) for case in others if _is_empty(case))


def test_one_that_promises_to_reject_them_is_given_them() -> None:
    kernel = _kernel(empty=False, outside="rejects")
    empty = [case for case in _cases(kernel, count=quarter(1000)) if _is_empty(case)]
    assert empty
    for case in empty:
        assert kernel.capability.is_dispatched(case)
        assert kernel.capability.refusal(case) is not None


@pytest.mark.parametrize(
    ("body", "verdict"), [("return KF_REJECTED;", Verdict.PASS), ("copy(c);", Verdict.FAIL_ACCEPTED_INVALID)]
)
def test_it_must_reject_them(tmp_path: Path, cache: Path, body: str, verdict: Verdict) -> None:
    (tmp_path / "k.c").write_text(f"{HEAD}{body}\n    return KF_OK;\n}}\n")
    able = Capabilities(empty=False, outside="rejects")
    target: Target = c_target(CKernel("k", "rms_norm", tmp_path / "k.c", capabilities=able), "native")
    with WorkerPool([target], cache=cache) as pool:
        (found,) = pool.submit([NO_ROWS]).outcomes()
    why = target.kernel.capability.refusal(NO_ROWS)
    assert why is not None
    assert Judge(NO_ROWS).judge_invalid(found[target.id], why).verdict is verdict
