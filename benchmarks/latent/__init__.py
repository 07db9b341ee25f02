"""Latent trees: speed, the paper's tables, and clusters.

From the root of the repository:

    python -m benchmarks.latent solver                    # forward and backward beside cvxpylayers, depth 3
    python -m benchmarks.latent growth                    # how the solver's time grows with rows and with depth
    python -m benchmarks.latent epoch                     # a training epoch beside an MLP of as many parameters
    python -m benchmarks.latent cuda                      # the solver on a GPU beside the CPU and its hybrid
    python -m benchmarks.latent tables --sets tictactoe   # test errors beside CART and boosting, 4 seeds; goes on
    python -m benchmarks.latent clusters --sets glass     # dendrogram purity beside usual methods; goes on
    python -m benchmarks.latent curve                     # active nodes while training, and what lambda does, on Glass
    python -m benchmarks.latent gates                     # whether learned pruning pays for GradTree and GRANDE
    python -m benchmarks.latent summary                   # the page made of all that

Results are appended to `benchmarks/results/latent_*.csv`, or to the folder `--results`; a line that is there is not
computed again. `--workers 3` computes three lines at a time.
"""
