"""The tests of ONNX's nodes: one node each, with inputs and the outputs that runtimes are compared with."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.core.base.errors import UsageError
from fuzz.tasks.comparison import OPEN

EXACT = "exact"
_EXPANDED = re.compile("_expanded(_ver\\d+)?$")


@dataclass(frozen=True)
class NodeCase:
    """One test of a node."""

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Any]
    """Arrays; None for one that is missing, and other values, such as sequences, as they are."""
    outputs: Mapping[int, Any]
    """The stored outputs, by their place among the outputs of the operator."""
    rtol: float = 1e-3
    atol: float = 1e-7
    others: Sequence[str] = ()
    """The names of tests that compare the same outputs with those of several nodes."""


@dataclass(frozen=True)
class NodeAnswer:
    """What was found out about the stored outputs of one test."""

    name: str
    op: str = ""
    dtypes: str = ""
    """The dtypes of the inputs and outputs, such as "float32, int64 to float32"."""
    floats: bool = False
    """Whether some output is of floats."""
    by: str = ""
    """What judged it: `EXACT`, `FORMULA`, `REPLAY` or ""."""
    result: str = OPEN
    said: str = ""
    """What is wrong, or why nothing is judged."""
    unread: str = ""
    """Why no formula is read."""
    others: int = 0
    """The number of further tests that compare the same outputs."""
    wider: float | None = None
    """The median, over elements, of the test's tolerance by the largest error of a right kernel."""
    tight: float | None = None
    """The share of elements for which a right kernel may be off by more than the tolerance."""


def node_cases() -> Mapping[str, NodeCase]:
    """Return the tests by name. Raises UsageError if there is no `onnx`."""
    try:
        with warnings.catch_warnings(action="ignore"):  # those of its own calculations
            from onnx.backend.test.loader import load_model_tests

            found = load_model_tests(kind="node")
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise UsageError(f"the tests of ONNX's nodes need {name}: pip install {name}") from error
    others, cases = dict[str, list[str]](), dict[str, NodeCase]()
    for each in found:
        name = _EXPANDED.sub("", each.name)
        if name == each.name:
            cases[name] = _case(each, others.setdefault(name, []))
        else:
            others.setdefault(name, []).append(each.name)
    return cases


def _case(test: Any, others: Sequence[str]) -> NodeCase:
    from onnx.helper import get_attribute_value

    graph, ([inputs, outputs],) = test.model.graph, test.data_sets
    [node] = graph.node
    given = dict(zip([each.name for each in graph.input], map(_value, inputs), strict=True))
    returned = dict(zip([each.name for each in graph.output], map(_value, outputs), strict=True))
    attributes = {each.name: _value(get_attribute_value(each)) for each in node.attribute}
    places = {at: returned[name] for at, name in enumerate(node.output) if name}
    named = [given.get(name) for name in node.input]
    return NodeCase(test.name, node.op_type, attributes, named, places, test.rtol, test.atol, others)


def _value(value: Any) -> Any:
    """Return the array that a value of a test or attribute is; other values as they are."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    return np.asarray(value) if isinstance(value, np.generic) else value
