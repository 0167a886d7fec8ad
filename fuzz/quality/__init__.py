"""What measures ourselves: the oracle, the power of the judge, the explanations. It is not part of the wheel."""
