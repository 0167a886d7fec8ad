"""A search on workers of Dask, which schedules, retries and displays. It runs one function of ours, on JSON text."""
