"""A kept case, replayed and shown."""
