"""What a kernel promises of its arithmetic: measured by designed inputs, fitted to runs, and said in words."""
