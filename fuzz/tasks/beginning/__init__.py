"""The first files of somebody's own pack."""
