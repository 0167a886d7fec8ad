"""The codec of explanations and rules: their JSON in case files, databases and reports, and its schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from fuzz.core.base.case import CaseError
from fuzz.core.base.text import printable
from fuzz.explain.explanation import VERSION, Explanation
from fuzz.explain.rule.rule import Rule
from fuzz.findings.document import told

_T = TypeVar("_T")
_INFINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""The words for infinite thresholds, which JSON cannot express."""
_FINITE = {word: number for number, word in _INFINITE.items()}


def encoded(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as a JSON object."""
    record = _builtins(explanation)
    assert isinstance(record, dict)
    return record


def decoded(record: object, where: str = "explanation") -> Explanation:
    """Return the explanation in a JSON object of this version or an older one. The object may come from anybody, so its
    words are made printable. Raises CaseError, which names the field."""
    if isinstance(record, dict) and record.get("schema") not in range(1, VERSION + 1):
        raise CaseError(f"{where}.schema: {told(record.get('schema'))}, this kernelfuzz reads 1 to {VERSION}")
    return _converted(record, Explanation, where)


def rule_to_text(rule: Rule | None) -> str:
    """Return the rule as text, from which a later session recognises failures of the bug; '' for no rule."""
    return "" if rule is None else json.dumps(_builtins(rule))


def rule_from_text(text: str) -> Rule | None:
    """Return the rule that `rule_to_text` wrote. Raises ValueError for another text."""
    return _converted(json.loads(text), Rule, "rule") if text else None


def schema() -> dict[str, Any]:
    """Return the JSON schema of an explanation."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kernelfuzz explanation {VERSION}",
        **msgspec.json.schema(Explanation),
    }


def _builtins(value: object) -> Any:
    return _mapped(msgspec.to_builtins(value), lambda leaf: _INFINITE.get(leaf, leaf))


def _converted(record: object, kind: type[_T], where: str) -> _T:
    def read(leaf: object) -> object:
        return _FINITE.get(leaf, printable(leaf)) if isinstance(leaf, str) else leaf

    try:
        return msgspec.convert(_mapped(record, read), kind, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CaseError(f"{where}: {error}") from error


def _mapped(node: Any, change: Callable[[Any], Any]) -> Any:
    """Return a JSON value with `change` applied to each of its leaves."""
    if isinstance(node, dict):
        return {change(name): _mapped(value, change) for name, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_mapped(value, change) for value in node]
    return change(node)


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
