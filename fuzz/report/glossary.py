"""What the words of a report mean, besides verdicts and exit codes: `kernelfuzz explain` and the pages have them."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.generate.layouts import LAYOUT_CLASSES
from fuzz.generate.menus import FACTORS, recipes
from fuzz.laws.registry import LAWS

LABELS: Mapping[str, str] = {
    "what": "what happened, if no value is compared: how a call ended, or which law is broken",
    "op": "what is computed, with the parameters of the smallest case; the lines below are its tensors: shapes, "
    "strides in elements, place in memory, and the values if they are few",
    "values": "how the values of the smallest case were drawn, and whether its rounding errors are treated as random "
    "or the worst of them is allowed",
    "failing": "how many elements of the smallest case are wrong. An error outside the worst case cannot come from "
    "rounding in the steps of the op's formula or of the reference; one inside it, but larger than rounding is in "
    "practice, is an accuracy failure",
    "worst": "the element that is furthest outside of what is allowed",
    "got": "its value, with its bits",
    "expected": "the exact value, rounded to the dtype of the output",
    "error": "how far it is off, in ulp (the distance between neighbouring numbers) and divided by what is allowed: "
    "above 1 is a failure",
    "exact": "the exact value, to many digits",
    "allowed": "the lowest and the highest value that a correct kernel may return here",
    "budget": "each part of what is allowed, with its formula",
    "row": "what is known about the element's row, such as its mean",
    "extents": "how many terms the element's sums have",
    "made of": "the inputs that the element is calculated from",
    "also fails": "other builds and other kernels that fail in the same way on this case",
    "otherwise": "builds and kernels that fail in another way",
    "passes on": "builds and kernels that pass",
    "wrong is": "what the kernel does wrong, and by which experiment that was shown",
    "contract": "a contract under which this is no failure: declare it if that is what the kernel promises",
    "declare": "a restriction on inputs that would exclude the failing cases: declare it if it is meant",
    "shrunk": "what was made smaller after the failure was found",
    "nearby": "what happens to the smallest case when one thing is changed; each change was run",
    "cause": "what the failure is tied to: the source, the compiler and its flags, a vector length, a library",
    "nobody set": "the kernel reads something that was never set: a register, the stack, or new memory",
    "changes": "the same call sometimes fails and sometimes passes",
    "fails when": "the rule, and how it was tested",
    "and when": "the same rule with other numbers: failures of the same bug in a separate range",
    "in common": "what all failing cases share, when there is no rule",
    "bad elements": "where in the output the wrong elements are, in all failing cases that were examined",
    "also here": "failures with another verdict; no rule says whether they are the same bug",
    "not finished": "there was not enough time for all of it; the named option gives more",
    "note": "anything else that you should know",
    "reproduce": "the command that runs the smallest case again on the target that failed",
    "as found": "the command that runs the case again as the search drew it, before it was made smaller",
    "case file": "the file of the smallest case, and the digest that names it",
    "found by": "the command of the search that found it",
    "seen": "how many runs failed like this, and on how many targets",
}
"""The labels of a failure in full."""
RUNS: Mapping[str, str] = {
    "kernel": "one implementation of an op, as a pack declares it",
    "targets": "where and how the kernel ran: toolchain and flags, instruction set, emulator or device",
    "runs": "how many runs there were; a run is one case on one target",
    "largest error": "the largest error of the runs that pass, divided by what is allowed; up to 100% is right",
    "NOTHING RAN": "no run has a verdict, which is never a pass; the lines above say why",
    "MOSTLY NOT JUDGED": "more than half of the runs have no verdict, or more than half of the kernels had no "
    "turn, which is never a pass",
    "INTERRUPTED": "a signal ended it, so it has not passed: what had not run by then was not judged",
    "NOT DECIDED": "the oracle gave up on some run, or no wrong value of some output could have been seen, so it has "
    "not passed",
    "A REQUIRED TARGET DID NOT RUN": "so it has not passed, whatever other targets judged; a line names the target",
    "ENDED BY AN ERROR": "kernelfuzz contradicted itself or could not write something, so it has not passed; what was "
    "found is reported all the same, and a line says what went wrong",
    "no turn": "the search ended before these kernels were tried: give it a longer --max-time or more --max-cases. "
    "With --require their targets must run",
    "nothing found": "every run that was judged is right. This says nothing about what was not tried",
    "not exercised": "what the op allows but no case had, because the kernel does not declare it. The field of "
    "Capabilities that declares it is in parentheses",
    "held to": "what the kernel's platform documents: it applies to all that the kernel's contract does not say",
    "judged runs": "runs that have a verdict",
    "seed": "the same seed draws the same cases, but for extents that stand in a kernel's source: --seed",
    "broken": "the kernel cannot be built or started",
    "tested on": "how many cases were drawn to refute the rule, beyond those that it was learnt from",
    "no simple rule says when": "no short condition holds for all failing cases and for no others",
    "not explained": "it is shown as it was found, neither made smaller nor with a rule: there was no time, or "
    "--no-shrink",
    "no rule was found in time": "the time for explaining ended first; --explain-time gives more. The conditions "
    "shown fit the cases tried so far, but were not tested on others",
    "more time": "the command that searches again and explains for longer",
    "unless values or a coarse dtype hide it": "some cases should fail by the rule but pass, and fail with ordinary "
    "values or in the finest dtype",
    "values hide it": "how many cases should fail by the rule but pass: with their values the error is within what is "
    "allowed, with ordinary values it is not",
    "always": "no case passes, whatever is changed",
    "in all cases tried": "no case passes; the line names what was not varied",
    "right only as": "the kernel's results are right under another contract: declare it, if that is what you meant",
    "measured": "what specially designed inputs showed about the kernel's arithmetic",
    "accepts": "what the kernel does with inputs that it does not declare; this never counts as a failure",
    "by replay": "compared with the reference itself run in float64, which judges less sharply than a formula",
    "detection floor": "if outputs are off by this share of their value, half of them are noticed",
    "not searched": "the gate looked for no new cases; the line says why",
    "known failure": "a failure listed in a file or a store: it does not fail the gate",
    "not judged": "kernelfuzz says nothing about it",
    "n": "the length of a row, along the last dimension of the first input, unless the op has other names",
    "rows": "the number of rows, in all other dimensions together",
    "ulp": "the distance between neighbouring numbers of a dtype at a value",
    "err/budget": "how far a value is off, divided by how far it may be off: above 1 it fails",
    "twin": "the changed case by which a law is checked",
}
"""The words of the table, of the first lines of a failure, and of the last lines of a run."""
FIELDS: Mapping[str, str] = {
    "takes": "optional tensors that the kernel may be given",
    "dtypes": "dtypes of the first input",
    "mixed": "other dtypes that other tensors may have",
    "strides": "layouts: contiguous, spaced, pitched, rows or any",
    "axis": "the axis along which rows lie: last or any",
    "aliases": "outputs that may use the memory of an input: in place",
    "overlap": "outputs that may overlap a part of an input's memory",
    "params": "parameters that may have another value than the neutral one",
    "stacked": "tensors with one element for each place of a row that may also have several rows",
    "outside": "what happens with invalid input: undefined (it is never tried) or rejects",
    "checks": "index inputs in which the kernel looks for invalid indices",
    "empty": "whether tensors may have no elements",
}
"""The fields of `Capabilities` that the end of a run names."""
GIVEN: Mapping[str, str] = {
    "given": "the values in the case file",
    "ones": "the same number everywhere, as large as the largest given one",
    "integers": "1 to 7 times that number, repeating",
    "normal": "random, normally distributed, as large as the given ones",
    "shifted": "a mean as large as the given values, plus random numbers of an eighth of that",
    "large": "normal times 2^30, or as far as squares fit the dtype",
    "tiny": "normal times 2^-30, or as far as squares fit the dtype",
    "zeros": "0 everywhere",
    "one NaN": "normal, the last element of each row is NaN",
    "one infinity": "normal, the last element of each row is infinite",
    "spike": "normal, the last element of each row 256 times as large",
    "last row": "normal, the last row 2^16 times as large",
}
"""What the values of a smallest case are replaced by."""


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
