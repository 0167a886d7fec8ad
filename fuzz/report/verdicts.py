"""What each verdict means, with a kernel that causes it and what to do next: `kernelfuzz explain` and the page of
verdicts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fuzz.base.verdict import Verdict

_PLAIN = 'PythonKernel("mine", "softmax", HERE / "mine.py", "numpy", capabilities=Capabilities(empty=False))'


@dataclass(frozen=True)
class Meaning:
    """The meaning of one verdict."""

    what: str
    """A sentence, of which the kernel is the subject."""
    why: str
    """A sentence about the example."""
    example: str
    """A kernel in NumPy that causes it; '' where no kernel does."""
    next: str
    declared: str = _PLAIN
    """How the pack of the example declares it."""

    def lines(self, word: str) -> Iterator[str]:
        """Yield the lines that are printed of it."""
        yield f"{word}: {self.what}"
        yield ""
        if self.example:
            yield f"For example: {self.why}"
            yield ""
            yield from textwrap.indent(self.shown, "    ").splitlines()
            yield ""
        yield f"Next: {self.next}"

    @property
    def shown(self) -> str:
        """The example, and how it is declared where that matters."""
        return self.example if self.declared == _PLAIN else f"{self.example}\n\n# declared as\n{self.declared}"

    def markdown(self, word: str) -> Iterator[str]:
        """Yield its section of the page."""
        yield f"### {word}\n\n{self.what}\n"
        if self.example:
            yield f"{_capital(self.why)}\n"
            yield f"```python file={word}/mine.py\nimport numpy as np\n\n\n{self.example}\n```\n"
        if self.declared != _PLAIN:
            yield f"It is declared as `{self.declared}`.\n"
        yield f"**Next:** {self.next}\n"


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


_EXP = "e = np.exp(x - x.max(-1, keepdims=True))"


def _softmax(*lines: str, head: str = "def softmax(x):") -> str:
    return "\n    ".join([head, *lines])


MEANINGS: Mapping[Verdict, Meaning] = {
    Verdict.PASS: Meaning(
        "Every element lies where a correct kernel can put it, and nothing else was touched.",
        "this softmax is right.",
        _softmax(_EXP, "return e / e.sum(-1, keepdims=True)"),
        "nothing. A pass says that these cases are right, not that all are. To search longer: `kernelfuzz run "
        "--max-time 10m`.",
    ),
    Verdict.FAIL_NUMERIC: Meaning(
        "A value is further from the exact result than rounding in the formula's steps can explain.",
        "an eps that softmax does not have makes each row sum to less than 1.",
        _softmax(_EXP, "return e / (e.sum(-1, keepdims=True) + 1e-3)"),
        "look at the smallest case and at the line `fails when`: `kernelfuzz show NAME`. If the kernel is meant to "
        "round more than you declared, declare that in its contract; never widen a tolerance.",
    ),
    Verdict.FAIL_NONFINITE: Meaning(
        "There is a NaN or an infinity where the exact result is a number, or a number where one of these must be.",
        "`exp` overflows from 89 on, and infinity over infinity is NaN.",
        _softmax("e = np.exp(x)  # the maximum of the row is not subtracted", "return e / e.sum(-1, keepdims=True)"),
        "look for an overflow, 0/0 or a mask: `kernelfuzz show NAME` prints the values that cause it.",
    ),
    Verdict.FAIL_LAW: Meaning(
        "A property that must hold bit for bit does not, such as `rerun`: the same call gives the same bits.",
        "each call adds in another order.",
        _softmax(
            _EXP, "order = np.random.permutation(x.shape[-1])",
            "return e / e[..., order].sum(-1, keepdims=True)"),
        "look for atomics, races, or state that is kept between calls. If that is meant, leave the law out of "
        "`laws=(...)`; `kernelfuzz list laws` says what each demands.",
    ),
    Verdict.FAIL_MEMORY: Meaning(
        "The kernel reads or writes outside its tensors.",
        "it reads one element past the end of each row.",
        _softmax(
            "n, wide = x.shape[-1], np.lib.stride_tricks.as_strided",
            "more = wide(x, (*x.shape[:-1], n + 1), x.strides)",
            "e = np.exp(more - more.max(-1, keepdims=True))",
            "return (e / e.sum(-1, keepdims=True))[..., :n]"),
        "look at the bound of the loop or the mask of the load; the report names tensor, element and byte.",
    ),
    Verdict.FAIL_SHAPE: Meaning(
        "An output has the wrong shape.",
        "the rows are lost.",
        _softmax(_EXP, "return (e / e.sum(-1, keepdims=True)).reshape(-1)"),
        "return the shape that the op gives: `kernelfuzz list ops` says which.",
    ),
    Verdict.FAIL_DTYPE: Meaning(
        "An output has the wrong dtype.",
        "the result stays in float64.",
        _softmax(
            "wide = x.astype(np.float64)",
            "e = np.exp(wide - wide.max(-1, keepdims=True))",
            "return e / e.sum(-1, keepdims=True)"),
        "cast the result to the dtype of the input, or declare with `mixed` that outputs may have another dtype.",
    ),
    Verdict.FAIL_INPUT_MODIFIED: Meaning(
        "The kernel changes an input that is not one of its outputs.",
        "`-=` works in place.",
        _softmax("x -= x.max(-1, keepdims=True)", "e = np.exp(x)", "return e / e.sum(-1, keepdims=True)"),
        "write to the kernel's own memory, or declare the alias if the kernel works in place: "
        "`aliases=((\"y\", \"x\"),)`.",
    ),
    Verdict.FAIL_UNWRITTEN: Meaning(
        "An output element still holds what it held before the call, or was calculated from that.",
        "the elements after the last whole block of 4 are never written.",
        _softmax(
            _EXP, "whole = x.shape[-1] // 4 * 4",
            "y[..., :whole] = (e / e.sum(-1, keepdims=True))[..., :whole]", head="def softmax(x, y):"),
        "look at the tail of the loop. Outputs are filled with NaN before each call, so this is no accident.",
    ),
    Verdict.FAIL_ACCEPTED_INVALID: Meaning(
        "The kernel took an input that it declares to reject.",
        "it declares to take float32 only and to reject everything else, but checks nothing.",
        _softmax(_EXP, "return e / e.sum(-1, keepdims=True)"),
        "check inputs and raise `ValueError` (in C return `KF_REJECTED`), or do not declare `outside=\"rejects\"`.",
        _PLAIN.replace("empty=False", 'empty=False, outside="rejects"'),
    ),
    Verdict.FAIL_PROCESS: Meaning(
        "The values are right, but the kernel left its process changed.",
        "the setting stays after the call.",
        _softmax('np.seterr(all="ignore")', _EXP, "return e / e.sum(-1, keepdims=True)"),
        "restore it (`with np.errstate(...)`), or declare what the kernel keeps on purpose: `keeps=(\"threads\",)`.",
    ),
    Verdict.CRASH: Meaning(
        "The kernel raises, is ended by a signal, exits, or cannot be built or started.",
        "a row whose length is not a multiple of 4 cannot be viewed as blocks of 4.",
        _softmax(_EXP, "blocks = e.reshape(*e.shape[:-1], -1, 4)", "return e / blocks.sum((-2, -1))[..., None]"),
        "`kernelfuzz repro NAME` makes the call again. If the kernel is meant to take multiples only, declare it: "
        "`multiple_of={\"n\": 4}`.",
    ),
    Verdict.TIMEOUT: Meaning(
        "The kernel does not return within the time limit of a case.",
        "`left` is never 0 if 4 does not divide the length.",
        _softmax(
            _EXP, "left = x.shape[-1]", "while left != 0:", "    left -= 4", "return e / e.sum(-1, keepdims=True)"),
        "look at the condition of the loop. A kernel that is slow, not stuck, gets more time: `--case-limit 60s`.",
    ),
    Verdict.REJECTED: Meaning(
        "The kernel refuses an input that it is declared to take.",
        "it takes only multiples of 4, but does not declare that.",
        _softmax(
            "if x.shape[-1] % 4:", '    raise ValueError("n is no multiple of 4")',
            _EXP, "return e / e.sum(-1, keepdims=True)"),
        "declare what it takes, `multiple_of={\"n\": 4}`, or make it take the rest. The report says what to declare.",
    ),
    Verdict.ORACLE_GAVE_UP: Meaning(
        "The exact result lies so close to the border between two numbers that 2,560 bits, or a minute, cannot tell on "
        "which side.",
        "", "",
        "nothing is known to be wrong, and nothing is proved; the run ends with exit code 11. Please report the case.",
    ),
    Verdict.NOT_RUN: Meaning(
        "The target did not run, which is never a pass: a compiler, an emulator, a package or a GPU is missing or does "
        "not work.",
        "it is declared as a CuPy kernel, on a machine without CuPy or a GPU.",
        _softmax(_EXP, "return e / e.sum(-1, keepdims=True)"),
        "the line gives the reason; `kernelfuzz doctor` says what can run here. To make a run fail if a target did not "
        "run: `--require 'cupy-*'`.",
        _PLAIN.replace('"numpy"', '"cupy"'),
    ),
}  # fmt: skip
