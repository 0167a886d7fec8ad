"""Making a failing case small and plain, while it still fails in the same way."""
