"""`python -m benchmarks.latent`."""

from benchmarks.latent.command import main

if __name__ == "__main__":
    main()
