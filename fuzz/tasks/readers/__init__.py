"""Readers of statements and solutions in other projects' formats: functions, modules, definitions, tasks in folders."""
