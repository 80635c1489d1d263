"""Pictures of a run. Each `*_plot` writes a file (.png, .pdf or .svg) made from the `*_figure` beside it.

No global state of matplotlib is read or changed, and the same input gives the same bytes.
"""
