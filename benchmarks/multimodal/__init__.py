"""Trees inside networks against other networks: the thesis' Table 5.14 on sets that are at hand."""
