"""The methods, and what can be chosen about the parts of a model."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from ..config import GRAPH, JIGSAW, choose, one_of, require, setting
from ..errors import ConfigError
from ..graph_config import AXES, Raster
from .convs import CONVS
from .factories import Factory, entry_point_paths, import_factory, is_path, make_factory, options_text
from .jigsaws import JIGSAWS
from .poolings import POOLINGS
from .torchmil_table import TORCHMIL


class Method(NamedTuple):
    """A choice of encoder, pooling and jigsaw. colour: in pictures; a method without one takes what is left.

    members: of a committee, the settings of each kind of model in it, over those that the user gives.
    settings: of the method itself, where the user gives none. factory: of a foreign method, which has no parts of ours;
    None: its code has to be imported. positions: whether such a one looks at coordinates. regression: it has no
    encoder; the pooled features go into a regression that is fitted at once, see `nn/regression.py`.
    """

    graph: bool
    pooling: str  # empty: a foreign method
    jigsaw: bool
    colour: str = ""
    members: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = MappingProxyType({})
    factory: Factory | None = None
    positions: bool = True
    regression: bool = False

    @property
    def foreign(self) -> bool:
        return not self.pooling

    @property
    def unloaded(self) -> bool:
        """Whether the code of a foreign method has to be imported before it can be used."""
        return self.foreign and self.factory is None

    def uses(self, name: str, part: str) -> bool:
        """Whether a setting can change what is learnt. part: of models, that it is about, see `Setting.part`."""
        if self.regression:
            return name in OF_REGRESSION
        return {GRAPH: self.graph, JIGSAW: self.jigsaw}.get(part, True)

    @property
    def sees_positions(self) -> bool:
        """Whether coordinates can change what is learnt; if not, shuffling them is no test of the method."""
        if self.foreign:
            return self.graph or self.positions
        return self.graph or self.jigsaw

    def pooling_with(self, options: "ModelOptions") -> str:
        """The name of the pooling: the setting `gated` puts a gate into attention pooling."""
        return "gated-attention" if self.pooling == "attention" and options.gated else self.pooling


OF_REGRESSION = ("method", "level", "members", "class_weights")
COVARIATES = "covariates"  # the method that looks at nothing else
ALONE = Method(graph=False, pooling=COVARIATES, jigsaw=False, regression=True)
UNLOADED = Method(graph=False, pooling="", jigsaw=False)  # one whose code was not imported


# Their graph is that of the eight patches around each, as torchmil's data sets make it.
TORCHMIL_ROWS = {
    f"torchmil:{name}": UNLOADED._replace(
        graph=model.graph, positions=model.positions, settings={"k": 8} if model.graph else {}
    )
    for name, model in TORCHMIL.items()
}


class _Methods(Mapping[str, Method]):
    """The rows below, and what `register_method` adds.

    Found by name, but not listed: `covariates`, any other pooling (`mine`, `graph-mine`, `graph-mine+jigsaw`), methods
    that installed packages bring as entry points, and `package.module:factory`, which is imported.
    """

    def __init__(self, rows: Mapping[str, Method]) -> None:
        self._rows = dict(rows)
        self._registered: dict[str, Method] = {}
        self._imported: dict[str, Method] = {}

    def __getitem__(self, name: str) -> Method:
        if (row := self.peek(name)) is None:
            raise KeyError(name)
        if row.unloaded:
            path = entry_point_paths().get(name, name)
            require("method", name, is_path(path), "one that was registered in this process, see register_method")
            row = self._imported[name] = foreign_method(import_factory(path), row.settings)
        return row

    def peek(self, name: str) -> Method | None:
        """The row of a method without importing code of others: `unloaded` if that would be needed. None: unknown."""
        for rows in (self._rows, self._registered, self._imported, TORCHMIL_ROWS):
            if name in rows:
                return rows[name]
        if name == COVARIATES:
            return ALONE
        pooling = name.removeprefix("graph-").removesuffix("+jigsaw")
        if pooling in POOLINGS and all(row.pooling != pooling for row in self._rows.values() if not row.regression):
            return Method(name.startswith("graph-"), pooling, name.endswith("+jigsaw"))
        return UNLOADED if is_path(name) or name in entry_point_paths() else None

    def __iter__(self) -> Iterator[str]:
        return iter([*self._rows, *self._registered])

    def __len__(self) -> int:
        return len(self._rows) + len(self._registered)

    def __setitem__(self, name: str, row: Method) -> None:
        raise ConfigError(
            f"METHODS[{name!r}] = ...: the table cannot be changed, because its rows name parts of this package. "
            f"register_method({name!r}, factory) adds a model of your own."
        )

    def register(self, name: str, row: Method) -> None:
        fine = name == name.strip() and name and "," not in name and self._rows.get(name) is None
        require("method", name, bool(fine), f"a name without commas that is not one of {', '.join(self._rows)}")
        self._registered[name] = row

    def __delitem__(self, name: str) -> None:
        """Forget what was registered."""
        del self._registered[name]


def foreign_method(factory: Factory, settings: Mapping[str, Any] = MappingProxyType({})) -> Method:
    return UNLOADED._replace(graph=factory.graph, positions=factory.positions, factory=factory, settings=settings)


# What the paper's tables found to depend on the cohort: k, convolution, jigsaw, graph or none; and our `kinds`.
COMMITTEE: tuple[Mapping[str, Any], ...] = (
    {"method": "abmil"},
    {"method": "graph-abmil", "k": 8},
    {"method": "graph-abmil+jigsaw", "k": 24, "conv": "sage"},
    {"method": "graph-abmil+jigsaw", "k": 50},
    {"method": "graph-abmil", "k": 8, "kinds": 8},
)

# ABMIL in the field's common form, that of MIL-Lab: a layer of 512, a gated attention of 384, dropout 0.25.
GATED: Mapping[str, Any] = {"layers": 1, "hidden": 512, "gated": True, "attention_dim": 384, "dropout": 0.25}

# Okabe and Ito's colours (safe for the colour-blind): blue without a graph, green to red with one; the darker of two
# neighbours has the jigsaw. A committee and the baselines have colours of Paul Tol's palette.
METHODS = _Methods(
    {
        "abmil": Method(graph=False, pooling="attention", jigsaw=False, colour="#56B4E9"),
        "abmil+jigsaw": Method(graph=False, pooling="attention", jigsaw=True, colour="#0072B2"),
        "graph-mil": Method(graph=True, pooling="mean", jigsaw=False, colour="#009E73"),
        "graph-abmil": Method(graph=True, pooling="attention", jigsaw=False, colour="#E69F00"),
        "graph-abmil+jigsaw": Method(graph=True, pooling="attention", jigsaw=True, colour="#D55E00"),
        "committee": Method(
            graph=True,
            pooling="attention",
            jigsaw=True,
            colour="#882255",
            members=COMMITTEE,
            settings={"members": 3},  # each kind holds out every training patient once
        ),
        "mean-lr": Method(graph=False, pooling="mean", jigsaw=False, colour="#999933", regression=True),
        "max-lr": Method(graph=False, pooling="max", jigsaw=False, colour="#DDCC77", regression=True),
        "abmil-gated": Method(graph=False, pooling="attention", jigsaw=False, colour="#332288", settings=GATED),
    }
)
BASELINES = ("mean-lr", "max-lr", "abmil-gated")
PAPER_METHODS = tuple(name for name, method in METHODS.items() if not method.members and name not in BASELINES)
PAPER_METHOD = "graph-abmil+jigsaw"  # what the paper proposes
DEFAULT_METHOD = "committee"
JIGSAW_HEADS = ("linear", "mlp")
IMPOSTERS = ("all", "centre", "neighbours")


def register_method(
    name: str, factory: Callable[..., Any], *, graph: bool | None = None, positions: bool | None = None
) -> None:
    """Register your own model as a method in this process; `del METHODS[name]` removes it.

    factory: called as factory(in_dim=..., logits=..., **options), returns an `nn.Module` whose forward(batch) gives
    logits (bag, logit), or logits and attention (patch,), or an `Output`; see docs/your-model.md. graph: its batches
    need the graph of the patches; by default as the factory's attribute `graph` says. positions: False if it looks
    neither at coordinates nor at the graph, so that reports know that shuffling places cannot matter to it.

    Example: `register_method("mine", MyModel)`
    """
    METHODS.register(name, foreign_method(make_factory(factory, graph=graph, positions=positions)))


def check_method(name: str, where: str = "method") -> None:
    """Refuse a name that is no method's, naming the nearest. Imports no code of others."""
    if METHODS.peek(name) is None:
        choose(where, name, [*METHODS, *entry_point_paths(), "package.module:factory"])


def peek_method(name: str) -> Method:
    """The row of a method; an `unloaded` one if it would have to be imported, or is known only where it was trained."""
    return METHODS.peek(name) or UNLOADED


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of the parts of a model."""

    conv: str = setting("gat", f"Graph convolution of graph methods: {one_of(CONVS)}.", option=True, part=GRAPH)
    hidden: int = setting(256, "Width of the hidden states.")
    layers: int = setting(2, "Layers of the encoder.")
    heads: int = setting(
        1, "Attention heads of the gat convolution, which share the width; a divisor of hidden.", part=GRAPH
    )
    attention_dim: int = setting(128, "Rows of V in the attention pooling.")
    attention_bias: bool = setting(True, "A bias beside V in the attention pooling; the paper's equation has none.")
    gated: bool = setting(False, "Gated attention pooling (Ilse et al. 2018).", option=True)
    dropout: float = setting(0.0, "Dropout after each layer of the encoder.", option=True)
    input_dropout: float = setting(0.0, "Dropout of the features before the first layer of the encoder.")
    edge_dropout: float = setting(
        0.0,
        "Share of the graph's edges dropped at each training step, in both directions; self-loops are kept.",
        part=GRAPH,
    )
    jigsaw: str = setting("position", f"Jigsaw task of +jigsaw methods: {one_of(JIGSAWS)}.", option=True, part=JIGSAW)
    grid: int = setting(10, "Cells per side of the grid whose cells the position task predicts.", part=JIGSAW)
    bins: str = setting(
        "per-axis",
        "Extent of the grid: per-axis (each axis of the slide fills it) or aspect (its cells are squares, the longer "
        "axis fills it).",
        part=JIGSAW,
    )
    share: float = setting(0.9, "Share of the patches that the position task uses at each step.", part=JIGSAW)
    jigsaw_head: str = setting(
        "linear", "Head of the position task: linear, or mlp (one hidden layer, ReLU).", part=JIGSAW
    )
    imposters: str = setting(
        "all",
        "What the consistency task permutes: all features of the slide, only those of the centre (its neighbours keep "
        "theirs), or only those of the neighbours.",
        part=JIGSAW,
    )
    imposter_loss: str = setting(
        "mean",
        "How the consistency task joins its two terms, real and imposter: their mean or their sum.",
        part=JIGSAW,
    )
    kinds: int = setting(
        0,
        "Number of patch kinds whose co-occurrence among neighbours is added to the pooled state before the head "
        "(graph methods); 0: none, as in the paper.",
        option=True,
        part=GRAPH,
    )
    covariates: bool = setting(
        False, "Join the covariates of the cohort (--covariates age,sex) to the slide vector before the head."
    )
    loss: str = setting(
        "",
        "Loss of tasks that have several: nll or cox (survival), huber or squared (regression). The first is the "
        "default.",
        option=True,
    )
    options: str = setting(
        "",
        "Options of a model from outside this package (`package.module:factory`, `torchmil:ABMIL`): a table such as "
        "{heads = 4}, "
        "or its JSON; on the command line `--option heads=4`.",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", options_text(self.options))
        choose("conv", self.conv, CONVS)
        choose("jigsaw", self.jigsaw, JIGSAWS)
        for name in ("hidden", "layers", "heads", "attention_dim", "grid"):
            value = getattr(self, name)
            require(name, value, isinstance(value, int) and value >= 1, "a whole number of at least 1")
        require("heads", self.heads, self.hidden % self.heads == 0, f"a divisor of hidden = {self.hidden}")
        for name in ("dropout", "input_dropout", "edge_dropout"):
            value = getattr(self, name)
            require(name, value, 0 <= value < 1, "a number in [0, 1)")
        require("share", self.share, 0 < self.share <= 1, "a number in (0, 1]")
        choose("bins", self.bins, AXES)
        choose("jigsaw_head", self.jigsaw_head, JIGSAW_HEADS)
        choose("imposters", self.imposters, IMPOSTERS)
        choose("imposter_loss", self.imposter_loss, ("mean", "sum"))
        require("kinds", self.kinds, isinstance(self.kinds, int) and self.kinds >= 0, "a whole number of at least 0")

    @property
    def raster(self) -> Raster:
        """The grid of the position task."""
        return Raster(self.grid, self.bins)
