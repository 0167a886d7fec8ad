"""`python3 -m fuzz`: the command line from a plain checkout."""

from fuzz.cli import main

if __name__ == "__main__":
    main()
