"""The kinds of kernels and the sites where they run: how each kind is declared, built, started and attested."""
