"""The parts of an explanation: the rule, the counterfactuals, a fitting contract or declaration, the mechanism."""
