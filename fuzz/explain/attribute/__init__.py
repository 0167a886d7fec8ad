"""The things that a failure is tied to: targets, kernels, a history of calls, places in the output."""
