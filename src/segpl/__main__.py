"""`python -m segpl` is `segpl`."""

from segpl.cli import main

if __name__ == "__main__":
    main()
