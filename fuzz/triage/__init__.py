"""From failure to fix: who fails, on how little, on which inputs, and which failures are one bug."""
