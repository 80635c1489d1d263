"""CPU kernels over a symmetric CSR graph, compiled by Numba. `sparse.py` is their only user.

Each row is one thread's own work in a fixed order: no atomics, so runs repeat bit for bit on any number of threads.
A row of 256 floats is read once a neighbour and used at once; four neighbours at a time keep the sum in registers.
Arrays: indptr (patch + 1,), indices, reverse, weight (edge,), y, g, out (patch, head, d), receive, send (head, d),
s, t (patch, head), alpha (head, edge).
"""

# Compiled code has no use for annotations, and reductions need fastmath to be vectorised.
# mypy: disable-error-code="no-untyped-def"

import threading
from collections.abc import Callable
from typing import Any

import numba
import torch
from numba import njit, prange

_most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
_lock = threading.Lock()  # one of Numba's threading layers ends the process when two threads enter it at once


def launch(kernel: Callable[..., None], *args: Any) -> None:
    """Run a kernel on as many threads as torch uses; tensors are passed as the arrays they share memory with."""
    arrays = [a.detach().numpy() if isinstance(a, torch.Tensor) else a for a in args]
    threads = torch.get_num_threads()
    with _lock:
        numba.set_num_threads(min(threads, _most))
        kernel(*arrays)
    if torch.get_num_threads() != threads:  # Numba's first start sets OpenMP's threads, which are torch's too
        torch.set_num_threads(threads)


# Sums with a fixed evaluation order (bitwise reproducible). Numba optimises what it keeps for later processes once
# more than what it runs at once, and with fastmath the second time may add up in another order: the first run would
# differ from all others.


@njit(cache=True, nogil=True)
def _sum(values, a, b):
    """Of values[a:b]."""
    s0 = s1 = s2 = s3 = values.dtype.type(0)
    e = a
    while e + 4 <= b:
        s0 += values[e]
        s1 += values[e + 1]
        s2 += values[e + 2]
        s3 += values[e + 3]
        e += 4
    while e < b:
        s0 += values[e]
        e += 1
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def _sum_at(values, places, a, b):
    """Of values[places[a:b]]."""
    s0 = s1 = s2 = s3 = values.dtype.type(0)
    e = a
    while e + 4 <= b:
        s0 += values[places[e]]
        s1 += values[places[e + 1]]
        s2 += values[places[e + 2]]
        s3 += values[places[e + 3]]
        e += 4
    while e < b:
        s0 += values[places[e]]
        e += 1
    return (s0 + s1) + (s2 + s3)


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def weighted_sum(indptr, indices, weight, x, out):
    """out_j = sum_l w_jl x_l, over a (patch, d) array."""
    n, d = x.shape
    for j in prange(n):
        row = out[j]
        row[:] = 0
        e, end = indptr[j], indptr[j + 1]
        while e + 4 <= end:
            w0, w1, w2, w3 = weight[e], weight[e + 1], weight[e + 2], weight[e + 3]
            x0, x1, x2, x3 = x[indices[e]], x[indices[e + 1]], x[indices[e + 2]], x[indices[e + 3]]
            for c in range(d):
                row[c] += w0 * x0[c] + w1 * x1[c] + w2 * x2[c] + w3 * x3[c]
            e += 4
        while e < end:
            w0, x0 = weight[e], x[indices[e]]
            for c in range(d):
                row[c] += w0 * x0[c]
            e += 1


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def halves(y, receive, send, s, t):
    """s_j = receive . y_j and t_j = send . y_j: the two halves of v . [y_j || y_l]."""
    n, heads, d = y.shape
    for j in prange(n):
        for h in range(heads):
            row, u, v = y[j, h], receive[h], send[h]
            own = other = y.dtype.type(0)
            for c in range(d):
                own += u[c] * row[c]
                other += v[c] * row[c]
            s[j, h], t[j, h] = own, other


@njit(parallel=True, cache=True, nogil=True)
def edge_scores(indptr, indices, log_weight, s, t, slope, alpha):
    """alpha_jl = LeakyReLU(s_j + t_l) + log w_jl, less its row's maximum: ready for exp."""
    n, heads = s.shape
    for j in prange(n):
        a, b = indptr[j], indptr[j + 1]
        for h in range(heads):
            top = -alpha.dtype.type(3e38)
            for e in range(a, b):
                score = s[j, h] + t[indices[e], h]
                if score < 0:
                    score *= slope
                score += log_weight[e]
                alpha[h, e] = score
                top = max(top, score)
            for e in range(a, b):
                alpha[h, e] -= top


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def normalise_and_sum(indptr, indices, alpha, y, out):
    """Divide each row of alpha by its sum, then out_j = sum_l alpha_jl y_l."""
    n, heads, d = y.shape
    for j in prange(n):
        a, b = indptr[j], indptr[j + 1]
        for h in range(heads):
            scale = alpha.dtype.type(1) / _sum(alpha[h], a, b)
            for e in range(a, b):
                alpha[h, e] *= scale
            row = out[j, h]
            row[:] = 0
            e = a
            while e + 4 <= b:
                p0, p1, p2, p3 = alpha[h, e], alpha[h, e + 1], alpha[h, e + 2], alpha[h, e + 3]
                y0, y1 = y[indices[e], h], y[indices[e + 1], h]
                y2, y3 = y[indices[e + 2], h], y[indices[e + 3], h]
                for c in range(d):
                    row[c] += p0 * y0[c] + p1 * y1[c] + p2 * y2[c] + p3 * y3[c]
                e += 4
            while e < b:
                p0, y0 = alpha[h, e], y[indices[e], h]
                for c in range(d):
                    row[c] += p0 * y0[c]
                e += 1


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def attention_backward(indptr, indices, reverse, s, t, slope, alpha, y, out, g, send, inner, dy, dt, de):
    """Gradients in one gather of g: with row i and neighbour l, the edge (l, i) stands at reverse[e].

    de_li = alpha_li (g_l . y_i - g_l . out_l) LeakyReLU'(s_l + t_i);  dt_i = sum_l de_li;
    dy_i = sum_l alpha_li g_l + dt_i send, still without its term in ds. de is stored at e, i.e. transposed, and
    `attention_backward_own` makes ds of it.
    """
    n, heads, d = y.shape
    zero = alpha.dtype.type(0)
    for i in prange(n):
        for h in range(heads):
            total = zero
            for c in range(d):
                total += g[i, h, c] * out[i, h, c]
            inner[i, h] = total
    for i in prange(n):
        a, b = indptr[i], indptr[i + 1]
        for h in range(heads):
            yi, row, total = y[i, h], dy[i, h], zero
            row[:] = 0
            e = a
            while e + 4 <= b:
                p0, p1 = alpha[h, reverse[e]], alpha[h, reverse[e + 1]]
                p2, p3 = alpha[h, reverse[e + 2]], alpha[h, reverse[e + 3]]
                g0, g1 = g[indices[e], h], g[indices[e + 1], h]
                g2, g3 = g[indices[e + 2], h], g[indices[e + 3], h]
                d0 = d1 = d2 = d3 = zero
                for c in range(d):
                    v, v0, v1, v2, v3 = yi[c], g0[c], g1[c], g2[c], g3[c]
                    row[c] += p0 * v0 + p1 * v1 + p2 * v2 + p3 * v3
                    d0 += v * v0
                    d1 += v * v1
                    d2 += v * v2
                    d3 += v * v3
                de[h, e], de[h, e + 1], de[h, e + 2], de[h, e + 3] = p0 * d0, p1 * d1, p2 * d2, p3 * d3
                e += 4
            while e < b:
                p0, g0, d0 = alpha[h, reverse[e]], g[indices[e], h], zero
                for c in range(d):
                    row[c] += p0 * g0[c]
                    d0 += yi[c] * g0[c]
                de[h, e] = p0 * d0
                e += 1
            for e in range(a, b):
                other = indices[e]
                grad = de[h, e] - alpha[h, reverse[e]] * inner[other, h]
                if s[other, h] + t[i, h] < 0:
                    grad *= slope
                de[h, e] = grad
                total += grad
            dt[i, h] = total
            v = send[h]
            for c in range(d):
                row[c] += total * v[c]


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def attention_backward_own(indptr, reverse, de, receive, dy, ds):
    """ds_j = sum_l de_jl, where de is stored transposed; dy_j += ds_j receive."""
    n, heads, d = dy.shape
    for j in prange(n):
        for h in range(heads):
            total = _sum_at(de[h], reverse, indptr[j], indptr[j + 1])
            ds[j, h] = total
            row, v = dy[j, h], receive[h]
            for c in range(d):
                row[c] += total * v[c]
