"""What is judged, and by what, as the formats of others have it: functions, modules, definitions, tasks in folders."""
