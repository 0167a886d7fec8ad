"""The probes around a failure, and their results."""
