"""The models of torchmil as methods: `torchmil:ABMIL`. One adapter; `torchmil_table.py` says how they differ."""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config import did_you_mean
from ..errors import ConfigError
from ..tasks import get_task
from .batch import Batch
from .factories import GIVEN, TASK
from .torchmil_table import REFUSED, TORCHMIL, TorchmilModel

try:
    import torchmil.models
except ImportError as error:
    raise ConfigError(
        f"methods torchmil:...: torchmil cannot be imported ({error}). Install it: pip install 'jigsawmil[torchmil]'."
    ) from error

OURS = ("in_shape", "feat_ext", "criterion")  # arguments that the adapter gives
MOST_CELLS = 64 * 64  # of the grid on which SETMIL puts patches; all attend to all


class TorchmilModule(nn.Module):
    """One of torchmil's models behind `forward(batch)`: each bag goes through it by itself."""

    def __init__(self, name: str, in_dim: int, logits: int, task: str, options: dict[str, Any]) -> None:
        super().__init__()
        self.name, self.about, kind = name, TORCHMIL[name], getattr(torchmil.models, name)
        if logits != 1:
            raise ConfigError(
                f"torchmil:{name}: torchmil's models give one logit; {task} asks for {logits}. Choose a binary task, "
                "regression, or survival with the loss cox; or a method of ours."
            )
        if get_task(task).of_classes:
            self.loss = self._loss
        elif self.about.loss:
            raise ConfigError(
                f"torchmil:{name}: torchmil trains it with a further loss ({self.about.loss}), which is made for two "
                f"classes; the task is {task}. Choose {', '.join(n for n, m in TORCHMIL.items() if not m.loss)}; or a "
                "method of ours."
            )
        settings = {**self.about.defaults, **options}
        first, size = _features(name, in_dim, settings)
        try:
            self.model: Any = kind(in_shape=size, feat_ext=first, **settings)
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            raise ConfigError(f"torchmil:{name}: torchmil refuses its options {settings}: {error}") from error
        self.takes = set(inspect.signature(self.model.forward).parameters)
        if name == "CLAM_SB":
            self.model.inst_loss_fn = SmoothSvm()

    def forward(self, batch: Batch) -> Tensor | tuple[Tensor, Tensor]:
        asked = {name: True for name in ("return_att", "return_inst_pred") if self._answers(name)}
        with self._apart(batch.features.device):
            found = [self.model(**bag, **asked) for bag in self._bags(batch)]
        if not self.about.attention:
            return torch.stack([logit.reshape(1) for logit in found])
        logits, weights = [], []
        for logit, values, *instances in found:
            if instances:  # DSMIL predicts by the mean of its two streams
                logit = (logit + instances[0].max(dim=1).values) / 2
            logits.append(logit.reshape(1))
            scores = self.about.attention == "scores"
            weights.append(values.reshape(-1).softmax(0) if scores else values.reshape(-1))
        return torch.stack(logits), torch.cat(weights)

    def _loss(self, batch: Batch, labels: Tensor) -> Tensor:
        """The sum of the model's own losses, as torchmil's trainer has it. (bag,)"""
        each = []
        with self._apart(batch.features.device):
            for bag, label in zip(self._bags(batch), labels, strict=True):
                _, losses = self.model.compute_loss(label.reshape(1), **bag)
                each.append(torch.stack([one.reshape(()) for one in losses.values()]).sum())
        return torch.stack(each)

    def _answers(self, name: str) -> bool:
        wanted = {"return_att": bool(self.about.attention), "return_inst_pred": self.about.attention == "weights"}
        return name in self.takes and wanted[name]

    def _bags(self, batch: Batch) -> Iterator[dict[str, Tensor]]:
        """What its forward takes, (1, patch, ...) each."""
        for start, end in batch.bags:
            features = batch.features[start:end]
            bag = {"X": features[None]}
            if "mask" in self.takes:
                bag["mask"] = features.new_ones(1, end - start)
            if "adj" in self.takes:
                bag["adj"] = adjacency(batch, start, end)
            if "coords" in self.takes:
                bag["coords"] = lattice(batch.coords[start:end], batch.slide_ids[0])[None].to(features.device)
            yield bag

    @contextmanager
    def _apart(self, device: torch.device) -> Iterator[None]:
        """Some models draw numbers: from torch's generator in training, the same ones each time in prediction; DTFD's
        pseudo-bags from NumPy's, which is left as it was. Others keep tensors from one call for the next, training or
        not, which must not be those of inference mode."""
        state = np.random.get_state()  # noqa: NPY002
        forked = torch.random.fork_rng([device] if device.type == "cuda" else [], enabled=not self.training)
        gradients = torch.is_grad_enabled()
        with forked, torch.inference_mode(False), torch.set_grad_enabled(gradients):
            if not self.training:
                torch.manual_seed(0)
            np.random.seed(int(torch.randint(2**31, ())))  # noqa: NPY002
            try:
                yield
            finally:
                np.random.set_state(state)  # noqa: NPY002


class SmoothSvm(nn.Module):
    """CLAM's loss of patches: the smooth top-1 SVM of Berrada et al. 2018, the mean over patches. torchmil 1.0 compares
    each patch with the labels of all others, and fails on a patch whose two scores are far apart."""

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """scores: (patch, class). labels: (patch, 1)"""
        true = labels.reshape(-1, 1).long()
        raised = (scores + 1).scatter_add(1, true, scores.new_full(true.shape, -1.0))  # by 1 if the class is wrong
        first, second = scores.topk(2, dim=1).values.unbind(1)
        hard = first - second >= math.log(1e3)  # as the authors' code switches, for numbers' sake
        return (torch.where(hard, raised.amax(1), raised.logsumexp(1)) - scores.gather(1, true).squeeze(1)).mean()


def adjacency(batch: Batch, start: int, end: int) -> Tensor:
    """(1, patch, patch) sparse, as torchmil's data sets make it: D^-1/2 A D^-1/2 of the edges without self-loops."""
    graph = batch.graph
    assert graph is not None  # the table says that its model needs one
    edges = slice(int(graph.indptr[start]), int(graph.indptr[end]))
    rows, columns = graph.rows[edges] - start, graph.indices[edges].long() - start
    between = rows != columns
    rows, columns = rows[between], columns[between]
    scale = torch.bincount(rows, minlength=end - start).clamp(min=1).float().rsqrt()
    where = torch.stack([torch.zeros_like(rows), rows, columns])
    size = (1, end - start, end - start)
    return torch.sparse_coo_tensor(where, scale[rows] * scale[columns], size, check_invariants=False, is_coalesced=True)


def lattice(coords: Tensor, slide: str) -> Tensor:
    """Column and row of each patch, (patch, 2): the step is the smallest distance along an axis."""
    steps = [values.diff()[values.diff() > 0] for values in (axis.unique() for axis in coords.T)]
    step = torch.cat([*steps, coords.new_full((1,), torch.inf)]).min()
    cells = ((coords - coords.min(dim=0).values) / step).round().long()
    side = int(cells.max()) + 1
    if side**2 > MOST_CELLS or len(cells.unique(dim=0)) < len(cells):
        raise ConfigError(
            f"torchmil:SETMIL: {slide}: found {len(cells)} patches on a grid of {side} x {side} cells, the step being "
            f"{float(step):g}; expected one patch per cell and at most {MOST_CELLS} cells. Choose another method."
        )
    return cells


def _features(name: str, in_dim: int, settings: dict[str, Any]) -> tuple[nn.Module, tuple[int, ...]]:
    """What comes before the model, and the shape of what that takes; removes its settings."""
    if name == "VAEABMIL":
        sizes = [int(size) for size in settings.pop("layer_sizes")]
        return torchmil.nn.VariationalAutoEncoderMIL(input_shape=(in_dim,), layer_sizes=sizes), (1, in_dim)
    if not (width := settings.pop("width", 0)):
        return nn.Identity(), (in_dim,)
    # PatchGCN has a dropout of its own, which is the same number
    dropout = settings.get("dropout", 0.0) if name == "PatchGCN" else settings.pop("dropout", 0.0)
    return nn.Sequential(nn.Linear(in_dim, width), nn.ReLU(), nn.Dropout(dropout)), (in_dim,)


@cache
def factory(name: str) -> Callable[..., nn.Module]:
    """Called as factory(in_dim=..., logits=..., **options); its options are those of torchmil's class, and ours."""
    about: TorchmilModel = TORCHMIL[name]

    def make(in_dim: int, logits: int, task: str, **options: Any) -> nn.Module:
        return TorchmilModule(name, in_dim, logits, task, options)

    theirs = inspect.signature(getattr(torchmil.models, name)).parameters
    given = (*GIVEN, TASK)
    names = [*given, *dict.fromkeys([*about.defaults, *(n for n in theirs if n not in OURS)])]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(n, keyword, default=None if n not in given else inspect.Parameter.empty) for n in names
    ]
    for key, value in {"graph": about.graph, "positions": about.positions}.items():
        setattr(make, key, value)
    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return make


def __getattr__(name: str) -> Callable[..., nn.Module]:
    """The factory of `torchmil:NAME`."""
    if name in TORCHMIL:
        return factory(name)
    if name.startswith("__"):
        raise AttributeError(name)
    if name in REFUSED:
        raise ConfigError(
            f"torchmil:{name} cannot be trained here: {REFUSED[name]}. Choose one of {', '.join(TORCHMIL)}."
        )
    raise ConfigError(f"torchmil:{name}: expected one of {', '.join(TORCHMIL)}.{did_you_mean(name, list(TORCHMIL))}")
