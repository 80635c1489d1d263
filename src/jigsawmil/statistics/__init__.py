"""Statistics of predictions as functions of arrays: metrics, intervals and curves."""
