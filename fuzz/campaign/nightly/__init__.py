"""The nightly job: fresh seeds every night, one state for all nights, nothing lost to a kill or a full disk."""
