"""A kernel's promises about its arithmetic: measured with designed inputs, fitted to runs, and said in words."""
