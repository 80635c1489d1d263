"""The contenders, and the process that runs one for `step.py`: `python -m benchmarks.speed.contenders NAME N`.

Every contender trains on the same slide with the same optimiser. The graph peers are given the graph method's own
edges and patch order, so that what is compared is the model's implementation and nothing before it.
"""

import ctypes
import dataclasses
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.spatial import cKDTree
from torch import Tensor, nn

from jigsawmil.bags.bag import Bag
from jigsawmil.graph import GraphConfig, knn_graph, spatial_order
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.jigsaws.position import Position
from jigsawmil.nn.model import METHODS, build_model
from jigsawmil.nn.poolings.attention import AttentionPool
from jigsawmil.synthetic.phantom_tissue import draw_outline
from jigsawmil.tasks.heads import BinaryHead
from jigsawmil.train.config import AUTO
from jigsawmil.train.devices import autocast, pick_precision

D1, HIDDEN, ATTENTION, K = 1024, 256, 128, 50
GRID, SHARE, LAMBDA = 10, 0.9, 0.5
PATCH = 512  # px
THREADS = 2
CLEAR_REFS = Path("/proc/self/clear_refs")
LABEL = torch.ones(1)

Step = Callable[[Any], float]  # what a contender loaded -> the loss


@dataclass(frozen=True)
class Contender:
    """load: a bag to what stays in memory for it. build: model and optimiser, as the step on what was loaded.

    kb: kB a patch that a step takes, roughly; a contender that cannot fit is not started. needs: its package.
    """

    about: str
    load: Callable[[Bag], Any]
    build: Callable[[], Step]
    kb: float
    needs: str = "jigsawmil"


def tissue_slide(n: int, seed: int = 0) -> Bag:
    """n patches of a ragged piece of tissue on a lattice, in random file order, with random features."""
    rng = np.random.default_rng(seed)
    coords = rng.permutation(draw_outline(rng, n)) * float(PATCH)
    features = torch.randn(n, D1, generator=torch.Generator().manual_seed(seed))
    return Bag(slide_id=f"{n} patches", features=features, coords=torch.from_numpy(coords), patch_size=PATCH)


def trainer(model: nn.Module, loss: Callable[[Any], Tensor]) -> Step:
    """Forward, loss, backward, optimiser: the paper's Adam, the same for all."""
    optimiser = torch.optim.Adam(model.parameters(), 1e-4, weight_decay=1e-5, fused=True)

    def step(loaded: Any) -> float:
        optimiser.zero_grad(set_to_none=True)
        total = loss(loaded)
        total.backward()
        optimiser.step()
        return total.item()

    return step


def load_ours(method: str) -> Callable[[Bag], Batch]:
    return lambda bag: Batch.of(bag, GraphConfig() if METHODS[method].graph else None)


def train_ours(method: str, precision: str = "float32") -> Step:
    model, generator = build_model(method, D1), torch.Generator().manual_seed(0)

    def loss(batch: Batch) -> Tensor:
        with autocast(batch.features.device, precision):
            output = model(batch)
            mil = model.head.loss(output.logits, LABEL).mean()
            return mil + LAMBDA * model.jigsaw_loss(batch, output, generator).mean()

    return trainer(model, loss)


def multiply(precision: str) -> Step:
    """The matrix products of our ABMIL's step and nothing else, with operands that have this precision already."""
    kind = getattr(torch, pick_precision(precision, torch.device("cpu")))
    widths = (D1, HIDDEN, HIDDEN, ATTENTION)
    weights = [torch.randn(out, width).to(kind) for width, out in pairwise(widths)]
    layers: list[Tensor] = []

    def step(batch: Batch) -> float:
        if not layers or len(layers[0]) != len(batch.features):
            layers[:] = [torch.randn(len(batch.features), width).to(kind) for width in widths]
        for x, w, y in zip(layers, weights, layers[1:], strict=False):
            torch.mm(x, w.T)  # forward
            torch.mm(y.T, x)  # gradient of the weight
            if w is not weights[0]:
                torch.mm(y, w)  # gradient of what came in
        return 0.0

    return step


def predict_ours(method: str) -> Step:
    model = build_model(method, D1).eval()

    def step(batch: Batch) -> float:
        with torch.inference_mode():
            return float(model.probabilities(model(batch))[0, 1])

    return step


def load_pyg(bag: Bag) -> tuple[Batch, Tensor]:
    """Our edges, self-loops included, as PyG's (source, target)."""
    batch = Batch.of(bag)
    return dataclasses.replace(batch, graph=None), edge_index(batch)


def train_pyg() -> Step:
    from torch_geometric.nn import GATConv

    convs = nn.ModuleList(GATConv(d, HIDDEN, heads=1, add_self_loops=False) for d in (D1, HIDDEN))
    pooling, head = AttentionPool(HIDDEN, ATTENTION), BinaryHead(HIDDEN, 1)
    jigsaw, generator = Position(HIDDEN, GRID, SHARE), torch.Generator().manual_seed(0)

    def loss(loaded: tuple[Batch, Tensor]) -> Tensor:
        batch, edges = loaded
        h = batch.features
        for conv in convs:
            h = F.elu(conv(h, edges))
        mil = head.loss(head(pooling(h, batch.bags)[0]), LABEL).mean()
        return mil + LAMBDA * jigsaw(lambda x: x, batch, h, jigsaw.logits(h), generator).mean()

    return trainer(nn.ModuleList([convs, pooling, head, jigsaw]), loss)


def load_torchmil(bag: Bag) -> tuple[Tensor, ...]:
    """X as torchmil's collate_fn gives it: (slide, patch, d)."""
    return (bag.features[None],)


def load_patch_gcn(bag: Bag) -> tuple[Tensor, ...]:
    """X and adj as torchmil's data set and collate_fn give them, over our edges.

    adj: sparse COO (slide, patch, patch), D^-1/2 A D^-1/2 of the edges without self-loops, which the layer adds.
    """
    from torchmil.utils import normalize_adj

    batch = Batch.of(bag)
    edges = edge_index(batch)
    edges = edges[:, edges[0] != edges[1]]
    values = torch.from_numpy(normalize_adj(edges.numpy(), n_nodes=len(bag))).float()
    adj = torch.sparse_coo_tensor(edges, values, (len(bag), len(bag)), check_invariants=True)
    return batch.features[None], torch.stack([adj]).coalesce()


def train_torchmil(make: Callable[[Any], nn.Module]) -> Step:
    import torchmil.models

    model: Any = make(torchmil.models)

    def loss(loaded: tuple[Tensor, ...]) -> Tensor:
        _, losses = model.compute_loss(LABEL, *loaded)
        return next(iter(losses.values()))

    return trainer(model, loss)


def edge_index(batch: Batch) -> Tensor:
    """(2, edge) int64: neighbour l, patch j."""
    assert batch.graph is not None
    target = torch.repeat_interleave(torch.arange(len(batch.graph)), batch.graph.indptr.diff())
    return torch.stack([batch.graph.indices.long(), target])


def load_points(bag: Bag) -> Tensor:
    """Coordinates in the order in which Batch.of hands them to the graph."""
    return bag.coords[spatial_order(bag.coords)]


def load_tree(bag: Bag) -> tuple[cKDTree, Any]:
    points = load_points(bag).numpy()
    return cKDTree(points), points


def build_graph_step() -> Step:
    return lambda coords: float(knn_graph(coords, K).edges)


def build_query_step() -> Step:
    """Only the query; the tree is there already. As many workers as knn_graph takes."""
    return lambda loaded: float(loaded[0].query(loaded[1], k=K + 1, workers=torch.get_num_threads())[0].max())


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(D1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())


OURS, PYG, GRAPH, QUERY = "graph-abmil+jigsaw", "PyG GATConv", "knn_graph", "cKDTree query"
OURS_AUTO, ABMIL_AUTO, BARE = f"{OURS}, {AUTO}", f"abmil, {AUTO}", "matrix products"
ABMIL, PATCH_GCN, TRANSMIL = "torchmil ABMIL", "torchmil PatchGCN", "torchmil TransMIL"

CONTENDERS: dict[str, Contender] = {
    OURS: Contender(
        "the paper's model: 2 graph attention layers of 256, attention pooling, position jigsaw",
        load_ours(OURS),
        lambda: train_ours(OURS),
        kb=16,
    ),
    "abmil": Contender("our ABMIL: MLP 1024-256-256", load_ours("abmil"), lambda: train_ours("abmil"), kb=12),
    OURS_AUTO: Contender(f"{OURS} with precision = auto", load_ours(OURS), lambda: train_ours(OURS, AUTO), kb=14),
    ABMIL_AUTO: Contender("abmil with precision = auto", load_ours("abmil"), lambda: train_ours("abmil", AUTO), kb=10),
    BARE: Contender(
        "the products of abmil's step, nothing else", load_ours("abmil"), lambda: multiply("float32"), kb=8
    ),
    f"{BARE}, {AUTO}": Contender("the same in that precision", load_ours("abmil"), lambda: multiply(AUTO), kb=6),
    ABMIL: Contender(
        "MLP 1024-256-256, attention of 128",
        load_torchmil,
        lambda: train_torchmil(lambda m: m.ABMIL(in_shape=(D1,), att_dim=ATTENTION, feat_ext=mlp())),
        kb=12,
        needs="torchmil",
    ),
    PATCH_GCN: Contender(
        "4 GCN layers (its default) of 256, our edges, sparse adjacency",
        load_patch_gcn,
        lambda: train_torchmil(lambda m: m.PatchGCN(in_shape=(D1,), hidden_dim=HIDDEN, att_dim=ATTENTION)),
        kb=60,
        needs="torchmil",
    ),
    f"{PATCH_GCN}, projected": Contender(
        "the same after Linear(1024, 256) and ReLU, as the Patch-GCN paper has it",
        load_patch_gcn,
        lambda: train_torchmil(
            lambda m: m.PatchGCN(
                in_shape=(D1,),
                hidden_dim=HIDDEN,
                att_dim=ATTENTION,
                feat_ext=nn.Sequential(nn.Linear(D1, HIDDEN), nn.ReLU()),
            )
        ),
        kb=50,
        needs="torchmil",
    ),
    TRANSMIL: Contender(
        "2 Nyström layers of 256, 4 heads, 128 landmarks (its defaults at that width)",
        load_torchmil,
        lambda: train_torchmil(lambda m: m.TransMIL(in_shape=(D1,), att_dim=HIDDEN)),
        kb=60,
        needs="torchmil",
    ),
    PYG: Contender(
        "the same model and edges on PyG's GATConv, which has no place for the distance weights",
        load_pyg,
        train_pyg,
        kb=400,  # about six arrays of edges x 256
        needs="torch_geometric",
    ),
    GRAPH: Contender("building the graph of the slide, k = 50", load_points, build_graph_step, kb=6),
    QUERY: Contender(
        "scipy's query for the same points, k + 1, the tree built before",
        load_tree,
        build_query_step,
        kb=2,
    ),
}

# Run after the others, with the machine to themselves: how much memory a whole process takes.
TRAIN, PREDICT = f"{OURS}, training alone", f"{OURS}, predicting alone"
ALONE: dict[str, Contender] = {
    TRAIN: CONTENDERS[OURS],
    PREDICT: Contender("the same model, inference", load_ours(OURS), lambda: predict_ours(OURS), kb=16),
}


class Memory:
    """Peak resident memory of this process, in bytes, from here on; made when the bag is loaded.

    The kernel's high-water mark where it can be reset (clear_refs), a sampling thread where it cannot.
    """

    def __init__(self) -> None:
        gc.collect()
        _trim()
        self.before = _status("VmHWM")  # of importing, warming up and loading
        self.loaded = _status("VmRSS")
        self.by = "not measured: needs /proc"
        self._sampled, self._stop = 0, threading.Event()
        try:
            CLEAR_REFS.write_text("5")
            self.by = "VmHWM, reset when the bag is loaded"
        except OSError:
            if self.loaded:
                self.by = "VmRSS, sampled every 2 ms"
                threading.Thread(target=self._sample, daemon=True).start()

    def read(self) -> dict[str, Any]:
        """growth: over what was resident with the bag loaded; peak: of the process since it began."""
        self._stop.set()
        if not self.loaded:
            return {"growth": None, "peak": None, "memory_by": self.by}
        since = self._sampled or _status("VmHWM")
        return {"growth": max(0, since - self.loaded), "peak": max(self.before, since), "memory_by": self.by}

    def _sample(self) -> None:
        while not self._stop.wait(0.002):
            self._sampled = max(self._sampled, _status("VmRSS"))


def _status(key: str) -> int:
    """Bytes that /proc states; 0 where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":")), 0)


def _trim() -> None:
    """Hand freed memory back, so that a step cannot hide its growth in what loading left over."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def serve(contender: Contender, n: int) -> None:
    """Load the slide, then answer each line: `step` with its seconds and loss, `memory` with the peak so far."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints must not end up among the replies
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    step = contender.build()
    step(contender.load(tissue_slide(2 * K)))  # compiled kernels, thread pools and the optimiser's state are not growth
    loaded = contender.load(tissue_slide(n))
    memory = Memory()
    _reply(replies, {"loaded": memory.loaded})
    for line in sys.stdin:
        if line.strip() == "memory":
            _reply(replies, memory.read())
            continue
        start = time.perf_counter()
        loss = step(loaded)
        _reply(replies, {"seconds": time.perf_counter() - start, "loss": loss})


def _reply(stream: Any, reply: dict[str, Any]) -> None:
    stream.write(json.dumps(reply) + "\n")
    stream.flush()


if __name__ == "__main__":
    serve({**CONTENDERS, **ALONE}[sys.argv[1]], int(sys.argv[2]))
