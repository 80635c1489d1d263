"""Do the maps show what the model used: its probability as patches are taken away, or given alone."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

LINES = {
    "attention": ("#0072B2", "-"),
    "evidence": ("#D55E00", "-"),
    "attribution": ("#009E73", "-"),
    "random": ("0.55", "--"),
}
TITLES = {
    "deletion": ("removed", "highest removed first: earlier fall is better"),
    "insertion": ("given", "only highest kept: earlier rise is better"),
}


def trust_figure(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Deletion and insertion, mean over slides. curves: of `train.faithfulness`, as its JSON holds them."""
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    for ax, (kind, (x, title)) in zip(figure.subplots(1, 2, sharey=True), TITLES.items(), strict=True):
        for ranking, (colour, dash) in LINES.items():
            if ranking in curves[kind]:
                ax.plot(curves[kind][x], curves[kind][ranking], dash, color=colour, linewidth=1.6, label=ranking)
        ax.set(title=title, xlabel=f"share of patches {x}", xlim=(0, 1))
    figure.axes[0].set_ylabel("probability of the predicted class")
    figure.axes[1].legend(loc="lower right")
    return figure
