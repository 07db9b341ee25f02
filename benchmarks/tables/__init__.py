"""The papers' tables: many sets, many methods, many seeds, one tidy file, rendered beside the papers' figures.

From the root of the repository:

    python -m benchmarks.tables run --suite gradtree-binary --methods cart gradtree    # resumes where it stopped
    python -m benchmarks.tables render --suite gradtree-binary --against cart
    python -m benchmarks.tables timing adult

`sets` reads the data, `methods` is the registry (`peers` and `ours` fill it), `cell` runs one method on one split of
one set, `store` keeps the results, `workers` and `campaign` run many cells, `summary` and `render` make the page from
them, `papers` has what the papers printed. A new method is one more `Method` in the registry.
"""
