"""Standalone programs: a failing case, its kernel and what is allowed, in one file that needs no fuzzer."""
