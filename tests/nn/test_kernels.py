"""Kernels give the same bits whether they were compiled a moment ago or taken from Numba's cache."""

import os
import subprocess
import sys
from pathlib import Path

RUN = """
import hashlib
import torch
from jigsawmil.graph import knn_graph
from jigsawmil.nn.kernels import normalise_and_sum
from jigsawmil.nn.sparse import neighbour_attention, neighbour_sum

draw = torch.Generator().manual_seed(0)
graph = knn_graph(torch.rand(150, 2, generator=draw), k=50)
for width in (24, 64, 256):
    y = torch.randn(150, 1, width, generator=draw, requires_grad=True)
    receive, send = (torch.randn(1, width, generator=draw, requires_grad=True) for _ in range(2))
    state, alpha = neighbour_attention(y, receive, send, graph)
    (state**2).sum().backward()
    found = [state, alpha, y.grad, receive.grad, send.grad, neighbour_sum(y[:, 0], graph)]
    print(*(hashlib.sha256(one.detach().numpy().tobytes()).hexdigest() for one in found))
print("compiled" if normalise_and_sum.stats.cache_misses else "from the cache")
"""


def test_the_first_run_gives_the_bits_of_all_others(tmp_path: Path) -> None:
    """Numba optimises what it keeps once more than what it runs at once."""
    there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", RUN]
    first, second = (
        subprocess.run(command, env=there, capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    )
    assert (first.pop(), second.pop()) == ("compiled", "from the cache")
    assert first == second
