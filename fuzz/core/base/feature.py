"""Features: questions about a case, about the elements of its output, or about where it runs, as records. Rules about
failures are made of features. Their words, made here too, are only for printing: no code reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

Form = Literal["word", "count", "number", "residue", "quantile", "position", "power", "size"]
"""The form of the answer to a feature: a word; a whole number from 0; any number; the remainder over a block; a real
number whose thresholds are found by bisection; a place in a row; the largest power of two that is not larger than the
quantity; or a size that follows from several extents, for which only limits have a meaning."""
About = Literal["case", "values", "scale", "parameter", "target"]
"""What a feature is about. Features about `values` of a tensor, or about `scale`, the size of values that a parameter
is compared with, hide a failure more often than they cause one. A `parameter` is printed with them, but hides none."""
Kind = Literal[
    "extent", "rank", "outer extent", "remainder", "quotient", "power of two", "product", "ratio", "in blocks",
    "compared", "beyond the first", "among the outer", "axis", "axis is first", "after the axis", "dtype",
    "dtype and that of", "stride of 0", "step", "rows of", "rank of", "furthest", "strides", "layout", "address",
    "address of rows", "presence", "in place", "in part", "shift", "over later", "over earlier", "span", "one buffer",
    "parameter", "scale", "threads", "NaN", "infinity", "zero", "negative zero", "subnormal", "zero row",
    "ordinary row", "ordinary value", "equal elements", "pattern", "row pattern", "first row pattern", "ones",
    "squares", "infinities", "after NaN", "magnitude", "magnitudes", "largest element", "of rows", "mean of rows",
    "place", "unset flag", "set flag", "one everywhere", "largest place", "missing place", "empty piece", "beside",
    "size", "over size", "in ulp", "change in ulp", "of two", "remainder of two", "change of two", "twin at", "twin's",
    "as the twin's", "target", "invalid", "index", "from the end", "in tail", "in tail along", "n", "rows",
    "row remainder", "next to a power", "tail", "equal extents", "tile", "extents", "alias", "memory", "alignment",
    "byte", "stack", "recipe", "big",
]  # fmt: skip


@dataclass(frozen=True)
class Topic:
    """What a kind of feature asks, in words, and the properties that all features of the kind share."""

    text: str
    """The name, with {0} for the subject, {1} for the relation and {2} for the operand."""
    form: Form = "word"
    about: About = "case"
    cost: float = 1.0
    """The cost of a condition of this kind in a rule: the plainer the reason, the lower. A residue is a reason of its
    own. A ratio or a product should be used only if no plainer condition fits, and a quantile only if the formula names
    no number. That a tensor is present is plainer than what values it has or whether it shares memory; where a tensor
    lies is plainer than where its rows lie."""
    yes: str = ""
    """The sentence for a feature that holds, with {limit} for the limit of a number; '' if there is none."""
    no: str = ""
    label: str = ""
    """The name in coverage, with {row} for the length of rows; '' if the name is `text`."""
    answer: str = "{0}"
    """The format in which coverage prints an answer of several parts."""


class Feature(NamedTuple):
    """A question about a case. It is a tuple because rules are learnt from thousands of cases with hundreds of
    features, and a tuple is hashed quickly. In JSON it is a list with the same items."""

    kind: Kind
    subject: str = ""
    """The tensor, dimension or parameter."""
    relation: str = ""
    operand: str | int = ""

    @property
    def topic(self) -> Topic:
        """The properties of the feature's kind."""
        return KINDS[self.kind]

    @property
    def cost(self) -> float:
        """The cost of a condition on this feature in a rule. A smaller block costs less."""
        block = self.operand if isinstance(self.operand, int) else 8
        return self.topic.cost + (block / 1000 if self.topic.form == "residue" else 0.0)

    @property
    def is_of_values(self) -> bool:
        """Whether values or parameters decide the answer."""
        return self.topic.about in ("values", "scale", "parameter")

    @property
    def hides(self) -> bool:
        """Whether the feature hides a failure more often than it causes one, like a huge eps or a row of zeros."""
        return self.topic.about in ("values", "scale")

    @property
    def tensor(self) -> str:
        """The tensor whose values the feature is about; '' if it is not about values."""
        return self.subject if self.topic.about == "values" else ""

    def said(self, template: str, row: str = "n", **more: str) -> str:
        """Return a template of the feature's kind filled in. `row` is the name that it has for the length of rows."""
        parts = self.subject, self.relation, self.operand
        return template.format(*parts, opposite=_OPPOSITE.get(self.relation), row=row, **more)

    @property
    def text(self) -> str:
        """The name of the feature in words."""
        return self.said(self.topic.text)

    def label(self, row: str = "n") -> str:
        """Return the feature's name in coverage, in which `row` stands for the length of rows."""
        return self.said(self.topic.label or self.topic.text, row).lstrip()

    def __str__(self) -> str:
        return self.text


Answer = str | int | tuple[str | int, ...]
"""An answer to a feature as coverage counts it, such as 17 for the tail of a row."""
Label = tuple[Feature, Answer]


def label_words(label: Label) -> tuple[str, str]:
    """Return the kind and the answer of a label as reports and the database name them, like 'tail of 48' and '17'."""
    kind, answer = label
    return kind.label(), kind.topic.answer.format(*answer) if isinstance(answer, tuple) else str(answer)


def answer_words(kind: Feature, answers: Iterable[Answer]) -> list[str]:
    """Return answers as reports and the database name them."""
    return [label_words((kind, answer))[1] for answer in answers]


_OPPOSITE: Mapping[str, str] = {"=": "!=", ">": "<=", "<": ">="}
_RESIDUE, _MEMORY, _PRODUCT, _FURTHEST, _RATIO, _QUANTILE, _PATTERN, _FIRST = 1.2, 1.05, 1.1, 1.15, 1.3, 1.35, 1.1, 1.25
_COMPARED = 1.16  # costlier than 'layout of x != contiguous', since transposed inputs are often not square
_KEPT = ("rounding {0} to the dtype of {2} changes it by another factor than the twin's",
         "rounding {0} to the dtype of {2} changes it by the same factor as the twin's")  # fmt: skip

KINDS: Mapping[Kind, Topic] = {
    "extent": Topic("{0}", "count", label="extent of {0}"),
    "rank": Topic("rank", "count"),
    "outer extent": Topic("extent {2} of the {0}", "number"),
    "remainder": Topic("{0} mod {2}", "residue", cost=_RESIDUE, label="extent of {0} mod {2}"),
    "quotient": Topic("{0} / {2}", "number"),
    "power of two": Topic("{0} is a power of two", yes="{0} is a power of two", no="{0} is not a power of two"),
    "product": Topic("{0} * {2}", "size", cost=_PRODUCT),
    "ratio": Topic("{0} / {2}", "quantile", cost=_QUANTILE),
    "in blocks": Topic("{0} * next_power_of_2({2})", "size", cost=_RATIO),
    "compared": Topic("{0} {1} {2}", cost=_COMPARED, yes="{0} {1} {2}", no="{0} {opposite} {2}"),
    "beyond the first": Topic("{0} > extent 0 of the {0}", yes="{0} > the first extent", no="{0} = the first extent"),
    "among the outer": Topic("an outer extent = {0}", cost=_COMPARED,
                           yes="an outer extent = {0}", no="no outer extent = {0}"),
    "axis": Topic("axis", answer="{0} of rank {1}"),
    "axis is first": Topic("axis is the first", yes="axis is the first", no="axis is not the first"),
    "after the axis": Topic("extents after the axis", "number"),
    "dtype": Topic("dtype of {0}", cost=_MEMORY, label="{0} dtype", answer="{0} for {1} {2}"),
    "dtype and that of": Topic("dtype of {0} and that of {2}", cost=_MEMORY),
    "stride of 0": Topic("a stride of 0 in {0}", "word", "case", _MEMORY,
                       "{0} has a stride of 0", "{0} has no stride of 0"),
    "step": Topic("step of {0}", cost=_MEMORY),
    "rows of": Topic("rows of {0}"),
    "rank of": Topic("rank of {0}"),
    "furthest": Topic("furthest element of {0}", "size", cost=_FURTHEST),
    "strides": Topic("strides of {0} and those of {2}", cost=_MEMORY),
    "layout": Topic("layout of {0}", cost=_MEMORY, label="{0} layout"),
    "address": Topic("address of {0} mod {2}", "residue", cost=_RESIDUE, label="{0} address"),
    "address of rows": Topic("each row of {0} at a multiple of {2}", "word", "case", 1.3,
                           "each row of {0} is at a multiple of {2} bytes",
                           "a row of {0} is not at a multiple of {2} bytes"),
    "presence": Topic("{0}", label="{0} presence"),
    "in place": Topic("{0} in place of {2}"),
    "in part": Topic("{0} over {2} in part", "word", "case", _MEMORY,
                   "{0} overlaps {2} in part", "{0} does not overlap {2} in part"),
    "shift": Topic("shift of {0} over {2}", "number", "case", 1.0,
                 *["{0} overlaps {2} in part, {limit} elements further on"] * 2),
    "over later": Topic("{0} over a later {1} of {2}", "word", "case", _MEMORY,
                      "{0} overlaps {2} in part, over {1}s that come later",
                      "{0} does not overlap {2} over {1}s that come later"),
    "over earlier": Topic("{0} over an earlier {1} of {2}", "word", "case", _MEMORY,
                        "{0} overlaps {2} in part, over {1}s that come earlier",
                        "{0} does not overlap {2} over {1}s that come earlier"),
    "span": Topic("span of an output over that of {0} in part", "word", "case", _MEMORY,
                "the span of an output overlaps that of {0} in part",
                "the span of no output overlaps that of {0} in part"),
    "one buffer": Topic("{0} is {2}", "word", "case", _MEMORY,
                      "{0} and {2} are one buffer", "{0} and {2} are two buffers"),
    "parameter": Topic("{0}", "number", "parameter", label="{0} value"),
    "scale": Topic("{0}", "number", "scale"),
    "threads": Topic("threads", yes="it runs on several threads", no="it runs on one thread"),
    "NaN": Topic("a NaN in {0}", "word", "values", 1.0, "{0} has a NaN", "{0} has no NaN"),
    "infinity": Topic("an infinity in {0}", "word", "values", 1.0, "{0} has an infinity", "{0} has no infinity"),
    "zero": Topic("a zero in {0}", "word", "values", 1.0, "{0} has a zero", "{0} has no zero"),
    "negative zero": Topic("a negative zero in {0}", "word", "values", 1.0,
                         "{0} has a zero of negative sign", "{0} has no zero of negative sign"),
    "subnormal": Topic("a subnormal in {0}", "word", "values", 1.0, "{0} has a subnormal", "{0} has no subnormal"),
    "zero row": Topic("a zero row in {0}", "word", "values", 1.0, "{0} has a row of zeros", "{0} has no row of zeros"),
    "ordinary row": Topic("an ordinary row in {0}", "word", "values", 1.0,
                        "{0} has a row that is finite and not all zero", "no row of {0} is finite and not all zero"),
    "ordinary value": Topic("an ordinary value in {0}", "word", "values", 1.0,
                          "{0} has a value that is finite and not 0", "no value of {0} is finite and not 0"),
    "equal elements": Topic("a row of equal elements in {0}", "word", "values", 1.0,
                          "{0} has a row of equal elements", "no row of {0} has equal elements"),
    "pattern": Topic("{0} {1}", "word", "values", _PATTERN, "{0} is {1}", "{0} is not {1}"),
    "row pattern": Topic("a row of {0} {1}", "word", "values", _PATTERN, "a row of {0} is {1}", "no row of {0} is {1}"),
    "first row pattern": Topic("the first row of {0} {1}", "word", "values", _FIRST,
                             "the first row of {0} is {1}", "the first row of {0} is not {1}"),
    "ones": Topic("{0} of ones", "word", "values", 1.0, "{0} is 1 everywhere", "{0} is not 1 everywhere"),
    "squares": Topic("a sum of squares beyond f32", "word", "values", 1.0,
                   "a sum of squares overflows f32", "no sum of squares overflows f32"),
    "infinities": Topic("minus infinities at the {1} of a row of {0}", "position", "values", 1.0,
                      *["{0} has a row with {limit} minus infinities at its {1}"] * 2),
    "after NaN": Topic("elements after the last NaN of a row of {0}", "position", "values", 1.0,
                     *["{0} has a NaN with {limit} elements after it"] * 2),
    "magnitude": Topic("{1} magnitude of {0}", "quantile", "values", _QUANTILE),
    "largest element": Topic("largest element of {0}", "quantile", "values", _QUANTILE),
    "magnitudes": Topic("largest magnitude of {0} / {1}", "quantile", "values", 1.5 * _QUANTILE),
    "of rows": Topic("{1} of a row of {0}", "quantile", "values", _QUANTILE),
    "mean of rows": Topic("largest mean of a row of {0} in standard deviations", "quantile", "values", _QUANTILE),
    "place": Topic("the {1} place in {0}", yes="{0} has the {1} place", no="{0} has not the {1} place"),
    "unset flag": Topic("an unset flag in {0}", yes="{0} has a flag that is unset", no="{0} has no flag that is unset"),
    "set flag": Topic("a set flag in {0}", yes="{0} has a flag that is set", no="{0} has no flag that is set"),
    "one everywhere": Topic("{0} is one {1}", yes="{0} is the same {1} everywhere",
                          no="{0} is not the same {1} everywhere"),
    "largest place": Topic("largest place of {0}", "number"),
    "missing place": Topic("a missing place in {0}", yes="a place of {0} is missing", no="no place of {0} is missing"),
    "empty piece": Topic("an empty piece in {0}",
                       yes="a piece that {0} cuts is empty", no="no piece that {0} cuts is empty"),
    "beside": Topic("{0} {1} the {2}", "word", "parameter", 1.0, "{0} {1} the {2}", "{0} {opposite} the {2}"),
    "size": Topic("log2 of the {0}", "power", "scale", _RATIO, *["{0} {limit}"] * 2),
    "over size": Topic("log2 of {0} over the {2}", "power", "scale", _RATIO, *["{0} {limit} times the {2}"] * 2),
    "in ulp": Topic("log2 of {0} in ulp of the {2}", "power", "scale", _RATIO, *["{0} {limit} ulp of the {2}"] * 2),
    "change in ulp": Topic("log2 of the change of {0} in the dtype of {1} in ulp of the {2}", "power",
                         "parameter", _RATIO,
                         *["rounding {0} to the dtype of {1} changes it by {limit} ulp of the {2}"] * 2),
    "of two": Topic("the {1} {0} of the two", "number", yes="{0}"),
    "remainder of two": Topic("the {1} {0} mod {2} of the two", "residue", cost=_RESIDUE, yes="{0} mod {2}"),
    "change of two": Topic("the change of {0} in the dtype of {2} and the twin's", "word", "case", 1.0, *_KEPT),
    "twin at": Topic("{0} at a multiple of {2}"),
    "twin's": Topic("the twin's {0}"),
    "as the twin's": Topic("{0} and that of the twin", "word", "case", _MEMORY,
                         "{0} is not the same in the twin", "{0} is the same in the twin"),
    "target": Topic("{0}", about="target", label="target"),
    "invalid": Topic("what is invalid"),
    "index": Topic("{0}", "count"),
    "from the end": Topic("{0} from the end", "number"),
    "in tail": Topic("tail of {2}"),
    "in tail along": Topic("tail of {2} along {0}"),
    "n": Topic("{row}"),
    "rows": Topic("rows"),
    "row remainder": Topic("{row} mod {2}"),
    "next to a power": Topic("{row} next to 2^k"),
    "tail": Topic("tail of {2}"),
    "equal extents": Topic("equal extents", answer="{0} = {1}"),
    "tile": Topic("full tile of {2}"),
    "extents": Topic("extents"),
    "alias": Topic("alias", answer="{0} in {1}"),
    "memory": Topic("memory", answer="{0} {1} {2}"),
    "alignment": Topic("{0} alignment {2}"),
    "byte": Topic("{0} byte"),
    "stack": Topic("{0} stack"),
    "recipe": Topic("{0} recipe", answer="{0} {1}"),
    "big": Topic("big"),
}  # fmt: skip
assert {*KINDS} == {*get_args(Kind)}, "each kind has a row"
