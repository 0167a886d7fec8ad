"""What a failure is tied to: targets, kernels, a history of calls, places of the output."""
