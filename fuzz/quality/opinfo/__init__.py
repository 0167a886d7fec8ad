"""Every entry of torch's own list of operations: can it be read, and are torch's results right?"""
