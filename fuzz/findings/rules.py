"""Rules as text: a later session tells by them which bug a failure is."""

from __future__ import annotations

import json

from fuzz.triage.rule import Atom, Rule


def rule_to_text(rule: Rule | None) -> str:
    """'' for no rule."""
    if rule is None:
        return ""
    return json.dumps([[atom.trait, atom.relation, list(atom.values), atom.cost] for atom in rule.atoms])


def rule_from_text(text: str) -> Rule | None:
    """The rule that `rule_to_text` wrote."""
    if not text:
        return None
    return Rule(tuple(Atom(trait, relation, tuple(values), cost) for trait, relation, values, cost in json.loads(text)))
