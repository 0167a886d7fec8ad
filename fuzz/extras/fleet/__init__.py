"""A search on workers of Dask, which schedules, retries and displays. It runs a single function of ours, on JSON
text."""
