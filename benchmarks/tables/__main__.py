"""`python -m benchmarks.tables`."""

from benchmarks.tables.command import main

if __name__ == "__main__":
    main()
