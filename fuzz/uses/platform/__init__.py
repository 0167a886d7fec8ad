"""What `kernelfuzz doctor --platform` measures: whether a platform keeps what it documents."""
