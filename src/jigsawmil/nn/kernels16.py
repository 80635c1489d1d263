"""The kernels of `kernels.py` for values in bfloat16, and ELU: read and written in two bytes each, computed in float32.

Patches lie along a Hilbert curve, so four rows in a row share most of their neighbours. A block of four rows is one
small dense product on the union of its columns: each row of values is read and widened once for all four. See
`Blocks` for start, columns, slot and most; the other arrays are those of `kernels.py`, values as uint16.
"""

# mypy: disable-error-code="no-untyped-def, call-arg, var-annotated"

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from ..graph_kernels import ROWS
from .kernels import _sum, _sum_at
from .tiles import WIDE, dot_tile, narrow, power_of_two, sum_tile, widen

PART = 8  # blocks that a thread does with one set of buffers


def bits(x: Tensor) -> Tensor:
    """The memory of values as NumPy can have it, which knows no bfloat16."""
    return x.detach().contiguous().view(torch.uint16)


@njit(nogil=True)
def _sum_block(share, columns, begin, count, x, h, own, one, other, block, out, spare):
    """out_j = sum_l share_jl x_l + own_j0 one + own_j1 other, for the rows j of a block."""
    n, heads, d = x.shape
    step, first = 2 * heads * d, ROWS * block
    rows = min(ROWS, n - first)
    target, target_step = out[first, h:, :].ctypes.data, step
    if rows < ROWS:
        target, target_step = spare.ctypes.data, 2 * d
    base = x[0, h:, :].ctypes.data
    for c in range(0, d, WIDE):
        sum_tile(
            share.ctypes.data, columns[begin:].ctypes.data, count, base + 2 * c, step, own.ctypes.data,
            one.ctypes.data + 4 * c, other.ctypes.data + 4 * c, target + 2 * c, target_step,
        )  # fmt: skip
    if rows < ROWS:
        for r in range(rows):
            out[first + r, h] = spare[r]


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def weighted_sum(indptr, start, columns, slot, most, weight, x, out):
    """out_j = sum_l w_jl x_l"""
    n, heads, d = x.shape
    blocks = len(start) - 1
    for part in prange((blocks + PART - 1) // PART):
        share, spare = np.empty(ROWS * most, np.float32), np.empty((ROWS, d), np.uint16)
        own, none = np.zeros((ROWS, 2), np.float32), np.zeros(d, np.float32)
        for block in range(PART * part, min(PART * part + PART, blocks)):
            count = start[block + 1] - start[block]
            share[: ROWS * count] = 0
            for e in range(indptr[ROWS * block], indptr[min(n, ROWS * block + ROWS)]):
                share[slot[e]] = weight[e]
            for h in range(heads):
                _sum_block(share, columns, start[block], count, x, h, own, none, none, block, out, spare)


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def halves(y, receive, send, s, t):
    """s_j = receive . y_j and t_j = send . y_j"""
    n, heads, d = y.shape
    for j in prange(n):
        for h in range(heads):
            row, u, v = y[j, h], receive[h], send[h]
            own = other = np.float32(0)
            for c in range(d):
                value = widen(row[c])
                own += u[c] * value
                other += v[c] * value
            s[j, h], t[j, h] = own, other


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def inner_products(a, b, inner):
    """inner_j = a_j . b_j"""
    n, heads, d = a.shape
    for j in prange(n):
        for h in range(heads):
            one, other, total = a[j, h], b[j, h], np.float32(0)
            for c in range(d):
                total += widen(one[c]) * widen(other[c])
            inner[j, h] = total


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def normalise_and_sum(indptr, start, columns, slot, most, alpha, y, out):
    """Divide each row of alpha by its sum, then out_j = sum_l alpha_jl y_l."""
    n, heads, d = y.shape
    blocks = len(start) - 1
    for part in prange((blocks + PART - 1) // PART):
        share, spare = np.empty(ROWS * most, np.float32), np.empty((ROWS, d), np.uint16)
        own, none = np.zeros((ROWS, 2), np.float32), np.zeros(d, np.float32)
        for block in range(PART * part, min(PART * part + PART, blocks)):
            count = start[block + 1] - start[block]
            for h in range(heads):
                share[: ROWS * count] = 0
                for j in range(ROWS * block, min(n, ROWS * block + ROWS)):
                    a, b = indptr[j], indptr[j + 1]
                    scale = np.float32(1) / _sum(alpha[h], a, b)
                    for e in range(a, b):
                        alpha[h, e] *= scale
                        share[slot[e]] = alpha[h, e]
                _sum_block(share, columns, start[block], count, y, h, own, none, none, block, out, spare)


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def attention_backward_scores(
    indptr, indices, reverse, start, columns, slot, most, s, t, slope, alpha, y, g, inner, dt, de
):
    """With row i and neighbour l: de_li = alpha_li (g_l . y_i - g_l . out_l) LeakyReLU'(s_l + t_i), dt_i = sum_l de_li.
    de is stored at e, i.e. transposed."""
    n, heads, d = y.shape
    blocks, step = len(start) - 1, 2 * heads * d
    for part in prange((blocks + PART - 1) // PART):
        dots, spare = np.empty(ROWS * most, np.float32), np.zeros((ROWS, d), np.uint16)
        for block in range(PART * part, min(PART * part + PART, blocks)):
            begin, count, first = start[block], start[block + 1] - start[block], ROWS * block
            rows = min(ROWS, n - first)
            for h in range(heads):
                source, source_step = y[first, h:, :].ctypes.data, step
                if rows < ROWS:
                    for r in range(rows):
                        spare[r] = y[first + r, h]
                    source, source_step = spare.ctypes.data, 2 * d
                base = g[0, h:, :].ctypes.data
                for u in range(0, count, 4):
                    dot_tile(
                        source, source_step, columns[begin + u :].ctypes.data, base, step, d,
                        dots[ROWS * u :].ctypes.data,
                    )  # fmt: skip
                for i in range(first, first + rows):
                    for e in range(indptr[i], indptr[i + 1]):
                        other = indices[e]
                        grad = alpha[h, reverse[e]] * (dots[slot[e]] - inner[other, h])
                        if s[other, h] + t[i, h] < 0:
                            grad *= slope
                        de[h, e] = grad
                    dt[i, h] = _sum(de[h], indptr[i], indptr[i + 1])


@njit(parallel=True, fastmath=True, cache=True, nogil=True)
def attention_backward_values(indptr, reverse, start, columns, slot, most, alpha, de, g, receive, send, dt, dy, ds):
    """ds_j = sum_l de_jl, and dy_i = sum_l alpha_li g_l + ds_i receive + dt_i send, rounded once.

    receive, send: in split order."""
    n, heads, d = g.shape
    blocks = len(start) - 1
    for part in prange((blocks + PART - 1) // PART):
        share, spare = np.empty(ROWS * most, np.float32), np.empty((ROWS, d), np.uint16)
        own = np.zeros((ROWS, 2), np.float32)
        for block in range(PART * part, min(PART * part + PART, blocks)):
            count, first = start[block + 1] - start[block], ROWS * block
            for h in range(heads):
                share[: ROWS * count] = 0
                for i in range(first, min(n, first + ROWS)):
                    a, b = indptr[i], indptr[i + 1]
                    for e in range(a, b):
                        share[slot[e]] = alpha[h, reverse[e]]
                    ds[i, h] = _sum_at(de[h], reverse, a, b)
                    own[i - first, 0], own[i - first, 1] = ds[i, h], dt[i, h]
                _sum_block(share, columns, start[block], count, g, h, own, receive[h], send[h], block, dy, spare)


# (exp(r) - 1) / r for |r| <= ln(2) / 2 to the last bits of float32, by its Taylor series; ln(2) in two parts
_TERMS = tuple(np.float32(1 / factor) for factor in (720, 120, 24, 6, 2, 1))
_LOG2E, _LN2, _LN2_REST = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)


@njit(nogil=True, fastmath={"contract"})  # not more: NaN has to stay NaN
def _exp_less_1(x):
    """exp(x) - 1 of x <= 0. Numba's own does one number at a time."""
    x = max(x, np.float32(-87))
    n = np.int32(x * _LOG2E - np.float32(0.5))
    r = x - np.float32(n) * _LN2 - np.float32(n) * _LN2_REST
    total = _TERMS[0]
    for term in _TERMS[1:]:
        total = total * r + term
    power = power_of_two(n)
    return power * (total * r) + (power - np.float32(1))


@njit(parallel=True, fastmath={"contract"}, cache=True, nogil=True)
def elu(x, out):
    """x if it is above 0, else exp(x) - 1; (row, column)"""
    for j in prange(len(x)):
        row, target = x[j], out[j]
        for c in range(len(row)):
            value = widen(row[c])
            target[c] = narrow(value if value > 0 else _exp_less_1(min(value, np.float32(0))))


@njit(parallel=True, fastmath={"contract"}, cache=True, nogil=True)
def elu_backward(out, g, dx):
    """g (1 + min(out, 0))"""
    for j in prange(len(out)):
        row, upper, target = out[j], g[j], dx[j]
        for c in range(len(row)):
            target[c] = narrow(widen(upper[c]) * (np.float32(1) + min(widen(row[c]), np.float32(0))))
