"""The nightly job: fresh seeds every night, one state for all nights, and nothing lost when it is killed or the disk is
full."""
