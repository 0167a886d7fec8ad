"""What the words of a report mean, besides verdicts and exit codes: `kernelfuzz explain` and the pages have them."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.generate.layouts import LAYOUT_CLASSES
from fuzz.generate.menus import FACTORS, recipes
from fuzz.laws.registry import LAWS

LABELS: Mapping[str, str] = {
    "what": "what happened, where no value is compared: how a call ended, or which law is broken",
    "op": "what is computed, with the parameters of the smallest case; below it stand its tensors, with their shapes, "
    "strides in elements, where they lie in memory, and their values where these are few",
    "values": "how the values of the smallest case were drawn, and whether rounding errors are taken for random there "
    "or the worst of them is allowed",
    "failing": "how many elements of the smallest case are wrong. Outside the worst case no rounding can explain it; "
    "inside it, but outside what rounding does in practice, it is an accuracy failure",
    "worst": "the element that is furthest outside of what is allowed",
    "got": "its value, with its bits",
    "expected": "the exact value, rounded to the dtype of the output",
    "error": "how far it is off, in ulp (distances between neighbouring numbers), and over what is allowed: above 1 "
    "is a failure",
    "exact": "the exact value, to many digits",
    "allowed": "from which value to which a correct kernel may return here",
    "budget": "each part of what is allowed, with its formula",
    "row": "what is known of the row that the element is in, such as its mean",
    "extents": "how many terms its sums have",
    "made of": "the inputs that the element is calculated from",
    "also fails": "other builds and other kernels that fail alike on this case",
    "otherwise": "those that fail in another way",
    "passes on": "those that pass",
    "contract": "what could be declared so that this is no failure, where that may be meant",
    "declare": "what the kernel may be meant to take, which would leave the failing cases out",
    "shrunk": "what was made smaller since the failure was found",
    "nearby": "what became of the smallest case with one thing changed, each of them run",
    "cause": "what the failure is tied to: the source, the compiler and its flags, a vector length, a library",
    "nobody set": "the kernel reads what nobody has set: a register, the stack, or new memory",
    "changes": "the same call fails now and then",
    "fails when": "the rule, and how it was put to the test",
    "and when": "the same rule with other numbers, where what fails lies apart",
    "in common": "what all failing cases share, where no rule stands",
    "bad elements": "where in the output the wrong elements are, in all failing cases that were looked at",
    "also here": "other failures in the same cases, which no rule tells from this one",
    "not finished": "there was no time for all of it; the option that is named gives more",
    "note": "what else a reader should know",
    "reproduce": "the command that runs the smallest case again on the target that failed",
    "as found": "the command that runs the case again as the search drew it",
    "case file": "the file of the smallest case, and the digest by which it is named",
    "found by": "the command of the search",
    "seen": "how many runs failed like this, and on how many targets",
}
"""The labels of a failure in full."""
RUNS: Mapping[str, str] = {
    "kernel": "one implementation of an op, as a pack declares it",
    "targets": "where and how the kernel ran: toolchain and flags, instruction set, emulator or device",
    "runs": "a case on one target is a run",
    "largest error": "the largest error of the runs that pass, over what is allowed; up to 100% is right",
    "NOTHING RAN": "no run has a verdict, which is never a pass: the reason stands above",
    "MOSTLY NOT JUDGED": "more than half of the runs have no verdict, which is never a pass",
    "nothing found": "every run that was judged is right. It says nothing of what was not tried",
    "not exercised": "what the op allows and no case had, since the kernel does not declare it. In parentheses stands "
    "the field of Capabilities that would",
    "held to": "what the kernel's platform documents, which stands for what its contract does not say",
    "judged runs": "runs that have a verdict",
    "seed": "the same seed draws the same cases: --seed",
    "broken": "the kernel cannot be built or started",
    "tested on": "so many cases that the rule was not learnt from, drawn to refute it",
    "no simple rule says when": "no condition in a few words holds of all failing cases and of no other",
    "no rule was found in time": "the time for explaining was over first: --explain-time gives more. What fits so far "
    "agrees with the cases that were tried, and nobody has tried to refute it",
    "more time": "the command that searches again and explains for longer",
    "unless values or a coarse dtype hide it": "some cases pass against the rule, and fail with ordinary values or in "
    "the finest dtype",
    "values hide it": "so many cases that meet the rule pass: with their values the error is within what is allowed, "
    "and with ordinary values it is not",
    "always": "no case passes, whatever is changed",
    "in all cases tried": "no case passes; the line names what was not varied",
    "right only as": "what the kernel does is what another contract promises: declare that, if it is meant",
    "measured": "what inputs by design showed of the kernel's arithmetic",
    "accepts": "what the kernel does with what it does not declare: tried, and not held against it",
    "by replay": "compared with the reference itself in float64, which judges less sharply than a formula",
    "detection floor": "of outputs that are off by this share of their value, a replay sees half",
    "not searched": "the gate looked for no new cases, and says why",
    "known failure": "a failure that a file or a store names: it does not fail the gate",
    "not judged": "what nothing is said about",
    "n": "how many elements a row has, along the last dimension of the first input, unless the op names others",
    "rows": "how many rows there are, in all other dimensions together",
    "ulp": "the distance between neighbouring numbers of a dtype at a value",
    "err/budget": "how far a value is off over how far it may be: above 1 it fails",
    "twin": "the changed case by which a law is checked",
}
"""The words of the table, of the first lines of a failure, and of the last lines of a run."""
FIELDS: Mapping[str, str] = {
    "takes": "optional tensors that may be there",
    "dtypes": "dtypes of the first input",
    "mixed": "other dtypes of other tensors",
    "strides": "layouts: contiguous, spaced, pitched, rows or any",
    "axis": "the axis along which rows lie: last or any",
    "aliases": "outputs that may be the memory of an input: in place",
    "overlap": "outputs that may lie over a part of an input's memory",
    "params": "parameters that may have another value than their neutral one",
    "stacked": "tensors of a row's dimensions that may have several rows",
    "outside": "what becomes of invalid input: undefined, and never tried, or rejects",
    "checks": "inputs of places that are looked through for what is no place",
    "empty": "whether tensors may have no elements",
}
"""The fields of `Capabilities` that the end of a run names."""
GIVEN: Mapping[str, str] = {
    "given": "those of the case file",
    "ones": "the same number everywhere, as large",
    "integers": "1 to 7 times that number, again and again",
    "normal": "random, normal, as large",
    "shifted": "a mean as large, and random numbers of an eighth of that about it",
    "large": "normal times 2^30, or as far as squares of the dtype go",
    "tiny": "normal times 2^-30, or as far as squares of the dtype go",
    "zeros": "0 everywhere",
    "one NaN": "normal, the last element of each row is NaN",
    "one infinity": "normal, the last element of each row is infinite",
    "spike": "normal, the last element of each row 256 times as large",
    "last row": "normal, the last row 2^16 times as large",
}
"""What the values of a smallest case are changed into."""


def glossary() -> Mapping[str, tuple[str, ...]]:
    """Return what each word means; some mean one thing in one place and another in another."""
    found = dict[str, tuple[str, ...]]()
    for kind, rows in (
        ("a line of a failure", LABELS),
        ("a word of a run", RUNS),
        ("a field of Capabilities", FIELDS),
        ("values of a case with one thing changed", GIVEN),
        ("a recipe for rows", {name: each.summary for name, each in recipes().items()}),
        ("a recipe for factors", {name: each.summary for name, each in FACTORS.items()}),
        ("a layout", {name: each.summary for name, each in LAYOUT_CLASSES.items()}),
        ("a law", {name: each.summary for name, each in LAWS.items()}),
    ):
        for word, meaning in rows.items():
            found[word] = (*found.get(word, ()), f"{word}, {kind}: {meaning}")
    return found
