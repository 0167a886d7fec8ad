"""The nightly job: new seeds every night, one state for all nights, and no loss by a kill or a full disk."""
