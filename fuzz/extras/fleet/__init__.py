"""A search on workers of Dask, which schedules, retries and shows: it gets one function of ours, and JSON text."""
