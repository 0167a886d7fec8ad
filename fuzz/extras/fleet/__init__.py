"""A search on workers of Dask, which schedules, retries and shows tasks. They run one function of ours, on JSON
text."""
