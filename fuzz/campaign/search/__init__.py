"""The main job: generate, execute, judge, and keep what was found."""
