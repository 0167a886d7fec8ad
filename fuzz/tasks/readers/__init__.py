"""What is judged, and by what, in other people's formats: functions, modules, definitions, tasks in folders."""
