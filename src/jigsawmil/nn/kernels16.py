"""The kernels of `kernels.py` for values in bfloat16, and ELU: read and written in two bytes each, computed in float32.

Patches lie along a Hilbert curve, so four rows in a row share most of their neighbours. A block of four rows is one
small dense product on the union of its columns: each row of values is read once for all four. What belongs to an edge
(weight, score, attention and their gradients) is a dense matrix of the block, too, 16 numbers at a time. Attention is
computed from its scores wherever it is needed, so that no kernel has to look up the reverse of an edge.

blocks: `Blocks` of the graph, in the backward pass of the transposed graph. kind: an array of the type in which
`tiles.py` takes the factors of a sum. near, senders, levels, inner: of each column of a block. level: (patch, head),
see `attention`. The other arrays are those of `kernels.py`, values as uint16.
"""

# mypy: disable-error-code="no-untyped-def, call-arg, var-annotated"

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from ..graph_kernels import ABSENT, LANES, ROWS
from .kernels import _sum, _sum_at
from .tiles import WIDE, dot_tile, narrow, power_of_two, sum_tile, to_share, widen

PART = 8  # blocks that a thread does with one set of buffers
RUN = 64  # rows that a thread adds up


def bits(x: Tensor) -> Tensor:
    """The memory of values as NumPy can have it, which knows no bfloat16."""
    return x.detach().contiguous().view(torch.uint16)


# (exp(r) - 1) / r for |r| <= ln(2) / 2 to the last bits of float32, by its Taylor series; ln(2) in two parts
_TERMS = tuple(np.float32(1 / factor) for factor in (720, 120, 24, 6, 2, 1))
_LOG2E, _LN2, _LN2_REST = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)
_FLOOR = np.float32(-1e38)  # below any score, above ABSENT and LEAST
_LEAST = np.float32(-87)  # the exponential of less is no normal number of float32


@njit(nogil=True, fastmath={"contract"})  # not more: NaN has to stay NaN
def _exp_parts(x):
    """exp(x) of x <= 0 as power + rest. Numba's own does one number at a time."""
    x = max(x, _LEAST)
    n = np.int32(x * _LOG2E - np.float32(0.5))
    r = x - np.float32(n) * _LN2 - np.float32(n) * _LN2_REST
    total = _TERMS[0]
    for term in _TERMS[1:]:
        total = total * r + term
    power = power_of_two(n)
    return power, power * (total * r)


@njit(nogil=True, fastmath={"contract"})
def _exp(x):
    power, rest = _exp_parts(x)
    return np.float32(0) if x < _LEAST else power + rest


@njit(nogil=True, fastmath={"contract"})
def _exp_less_1(x):
    power, rest = _exp_parts(x)
    return rest + (power - np.float32(1))


@njit(nogil=True)
def _numbers(count):
    return np.empty(count, np.float32)


# Rows of a block. Vectors fill them, of which the compiler is told: what is left over would be done one by one.


@njit(nogil=True)
def _whole(row):
    return len(row) & -LANES


@njit(nogil=True, fastmath=True)  # for the maximum: its order does not matter
def _scores(own, near, slope, log_weight, row):
    """row_u = LeakyReLU(own + near_u) + log w_u. Returns the largest, or what is above that of a missing edge: its
    exponential, less the largest, is 0 in any row."""
    top = _FLOOR
    for u in range(_whole(row)):
        score = own + near[u]
        row[u] = (score * slope if score < 0 else score) + log_weight[u]
        top = max(top, row[u])
    return top


@njit(nogil=True, fastmath={"contract"})
def _exponentials(row, less):
    """row_u = exp(row_u - less)"""
    for u in range(_whole(row)):
        row[u] = _exp(row[u] - less)


@njit(nogil=True, fastmath={"contract"})
def _attention(own, senders, levels, slope, log_weight, row):
    """row_u = exp(LeakyReLU(own + sender_u) + log w_u - level_u): what each column attends to a row."""
    for u in range(_whole(row)):
        score = own + senders[u]
        row[u] = _exp((score * slope if score < 0 else score) + log_weight[u] - levels[u])


@njit(nogil=True, fastmath={"contract"})
def _gradients(own, senders, inner, slope, dots, row, sums):
    """row_u = row_u (dots_u - inner_u) LeakyReLU'(own + sender_u), added to sums."""
    for u in range(_whole(row)):
        grad = row[u] * (dots[u] - inner[u])
        row[u] = grad * slope if own + senders[u] < 0 else grad
        sums[u] += row[u]


@njit(nogil=True)
def _times(row, scale):
    for u in range(_whole(row)):
        row[u] *= scale


@njit(nogil=True)
def _to_shares(values, share):
    for u in range(_whole(values)):
        share[u] = to_share(values[u], share)


@njit(nogil=True)
def _log_weights(blocks, block, r):
    begin = blocks.start[block]
    width = blocks.start[block + 1] - begin
    return blocks.log_weight[ROWS * begin + r * width : ROWS * begin + (r + 1) * width]


@njit(nogil=True)
def _at_columns(values, columns, h, near):
    for u in range(len(columns)):
        near[u] = values[columns[u], h]


@njit(nogil=True)
def _of_edges(row, log_weight, edges, spare):
    """edges: the numbers of a row that belong to an edge, in order."""
    e = 0
    for u in range(len(row)):
        spare[e] = row[u]
        e += log_weight[u] > ABSENT
    edges[:] = spare[: len(edges)]


@njit(nogil=True)
def _sum_block(blocks, block, share, x, h, own, one, other, out, spare):
    """out_j = sum_u share_ju x_u + own_j0 one + own_j1 other, for the rows j of a block."""
    n, heads, d = x.shape
    step, first, begin = 2 * heads * d, ROWS * block, blocks.start[block]
    rows, width = min(ROWS, n - first), blocks.start[block + 1] - begin
    target, target_step = out[first, h:, :].ctypes.data, step
    if rows < ROWS:
        target, target_step = spare.ctypes.data, 2 * d
    base, columns = x[0, h:, :].ctypes.data, blocks.columns[begin:].ctypes.data
    for c in range(0, d, WIDE):
        sum_tile(
            share, share.itemsize * width, columns, np.int64(blocks.size[block]), base + 2 * c, step, own.ctypes.data,
            one.ctypes.data + 4 * c, other.ctypes.data + 4 * c, target + 2 * c, target_step,
        )  # fmt: skip
    if rows < ROWS:
        for r in range(rows):
            out[first + r, h] = spare[r]


@njit(nogil=True)
def _dot_block(blocks, block, kind, y, g, h, dots, spare):
    """dots_iu = y_i . g_u, for the rows i of a block."""
    n, heads, d = y.shape
    step, first, begin = 2 * heads * d, ROWS * block, blocks.start[block]
    rows, width = min(ROWS, n - first), blocks.start[block + 1] - begin
    source, source_step = y[first, h:, :].ctypes.data, step
    if rows < ROWS:
        for r in range(rows):
            spare[r] = y[first + r, h]
        source, source_step = spare.ctypes.data, 2 * d
    base, columns = g[0, h:, :].ctypes.data, blocks.columns[begin:].ctypes.data
    for u in range(0, blocks.size[block], 4):
        dot_tile(
            kind, source, source_step, columns + 4 * u, base, step, d, dots.ctypes.data + 4 * u, 4 * width,
        )  # fmt: skip


@njit(parallel=True, cache=True, nogil=True)
def weighted_sum(blocks, kind, x, out):
    """out_j = sum_l w_jl x_l"""
    heads, d = x.shape[1:]
    count = len(blocks.size)
    for part in prange((count + PART - 1) // PART):
        weights, shares = _numbers(ROWS * blocks.most), np.empty(ROWS * blocks.most, kind.dtype)
        own, none, spare = np.zeros((ROWS, 2), np.float32), np.zeros(d, np.float32), np.empty((ROWS, d), np.uint16)
        for block in range(PART * part, min(PART * part + PART, count)):
            begin, end = ROWS * blocks.start[block], ROWS * blocks.start[block + 1]
            weight, share = weights[: end - begin], shares[: end - begin]
            weight[:] = blocks.log_weight[begin:end]
            _exponentials(weight, np.float32(0))
            _to_shares(weight, share)
            for h in range(heads):
                _sum_block(blocks, block, share, x, h, own, none, none, out, spare)


@njit(parallel=True, cache=True, nogil=True)
def attention(indptr, blocks, kind, s, t, slope, y, out, alpha, level):
    """alpha_jl = exp(LeakyReLU(s_j + t_l) + log w_jl - level_j), of which each row sums to 1, and
    out_j = sum_l alpha_jl y_l."""
    n, heads, d = y.shape
    count = len(blocks.size)
    for part in prange((count + PART - 1) // PART):
        rows, shares = _numbers(blocks.most), np.empty(ROWS * blocks.most, kind.dtype)
        near, edges = _numbers(blocks.most), _numbers(blocks.most + 1)
        own, none, spare = np.zeros((ROWS, 2), np.float32), np.zeros(d, np.float32), np.empty((ROWS, d), np.uint16)
        for block in range(PART * part, min(PART * part + PART, count)):
            begin, end = blocks.start[block], blocks.start[block + 1]
            width = end - begin
            for h in range(heads):
                _at_columns(t, blocks.columns[begin:end], h, near)
                for r in range(min(ROWS, n - ROWS * block)):
                    j, row = ROWS * block + r, rows[:width]
                    logs = _log_weights(blocks, block, r)
                    top = _scores(s[j, h], near, slope, logs, row)
                    _exponentials(row, top)
                    total = _sum(row, 0, width)
                    if total == 0:  # no edge
                        total = np.float32(1)
                    level[j, h] = top + np.log(total)
                    _times(row, np.float32(1) / total)
                    _of_edges(row, logs, alpha[h, indptr[j] : indptr[j + 1]], edges)
                    _to_shares(row, shares[r * width : (r + 1) * width])
                _sum_block(blocks, block, shares, y, h, own, none, none, out, spare)


@njit(parallel=True, cache=True, nogil=True)
def attention_backward_scores(blocks, kind, s, t, slope, level, y, g, inner, dt, parts):
    """With row i and neighbour l: de_li = alpha_li (g_l . y_i - g_l . out_l) LeakyReLU'(s_l + t_i), dt_i = sum_l de_li.

    parts: (head, column), the sum of de_li over the rows i of a block; added up over blocks they are ds."""
    n, heads, d = y.shape
    count = len(blocks.size)
    for part in prange((count + PART - 1) // PART):
        dots, rows = np.zeros(ROWS * blocks.most, np.float32), _numbers(blocks.most)
        near, spare = np.empty((3, blocks.most), np.float32), np.zeros((ROWS, d), np.uint16)
        for block in range(PART * part, min(PART * part + PART, count)):
            begin, end = blocks.start[block], blocks.start[block + 1]
            width = end - begin
            for h in range(heads):
                _dot_block(blocks, block, kind, y, g, h, dots, spare)
                for k, values in enumerate((s, level, inner)):
                    _at_columns(values, blocks.columns[begin:end], h, near[k])
                parts[h, begin:end] = 0
                for r in range(min(ROWS, n - ROWS * block)):
                    i, row = ROWS * block + r, rows[:width]
                    logs = _log_weights(blocks, block, r)
                    _attention(t[i, h], near[0], near[1], slope, logs, row)
                    _gradients(t[i, h], near[0], near[2], slope, dots[r * width :], row, parts[h, begin:end])
                    dt[i, h] = _sum(row, 0, width)


@njit(parallel=True, cache=True, nogil=True)
def attention_backward_values(blocks, kind, s, t, slope, level, g, receive, send, dt, parts, dy, ds):
    """ds_j = sum_l de_jl, and dy_i = sum_l alpha_li g_l + ds_i receive + dt_i send, rounded once.

    receive, send: in split order."""
    n, heads, d = g.shape
    count = len(blocks.size)
    for part in prange((count + PART - 1) // PART):
        rows, shares = _numbers(blocks.most), np.empty(ROWS * blocks.most, kind.dtype)
        near, own = np.empty((2, blocks.most), np.float32), np.zeros((ROWS, 2), np.float32)
        spare = np.empty((ROWS, d), np.uint16)
        for block in range(PART * part, min(PART * part + PART, count)):
            begin, end = blocks.start[block], blocks.start[block + 1]
            width = end - begin
            for h in range(heads):
                for k, values in enumerate((s, level)):
                    _at_columns(values, blocks.columns[begin:end], h, near[k])
                for r in range(min(ROWS, n - ROWS * block)):
                    i, row = ROWS * block + r, rows[:width]
                    logs = _log_weights(blocks, block, r)
                    _attention(t[i, h], near[0], near[1], slope, logs, row)
                    _to_shares(row, shares[r * width : (r + 1) * width])
                    ds[i, h] = _sum_at(parts[h], blocks.places, blocks.column_ptr[i], blocks.column_ptr[i + 1])
                    own[r, 0], own[r, 1] = ds[i, h], dt[i, h]
                _sum_block(blocks, block, shares, g, h, own, receive[h], send[h], dy, spare)


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


@njit(parallel=True, fastmath={"contract"}, cache=True, nogil=True)
def halves_backward(y, ds, dt, parts):
    """parts_0: sum_j ds_j y_j and sum_j dt_j y_j, (2, head, d). The others are those of RUN rows each, added up in
    their order."""
    n, heads, d = y.shape
    for part in prange(len(parts)):
        for j in range(RUN * part, min(n, RUN * part + RUN)):
            for h in range(heads):
                row, own, other = y[j, h], ds[j, h], dt[j, h]
                one, two = parts[part, 0, h], parts[part, 1, h]
                for c in range(d):
                    value = widen(row[c])
                    one[c] += own * value
                    two[c] += other * value
    for part in range(1, len(parts)):
        parts[0] += parts[part]


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
