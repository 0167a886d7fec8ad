"""What is said of a failure: its rule, its counterfactuals, the contract and the declaration that would fit."""
