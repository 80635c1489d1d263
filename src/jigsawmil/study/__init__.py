"""Studies: grids of cohorts, variants, folds and seeds, and the statistics of what they predict."""
