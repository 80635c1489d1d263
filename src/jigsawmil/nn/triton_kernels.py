"""The kernels of `triton_sums.py`, for GPUs: those of `kernels.py` with one program per row and head.

Each program writes what no other one writes, in a fixed order: no atomics, so runs repeat bit for bit on one GPU.
Values may be float32 or bfloat16, and everything is added up in float32. `D` is a power of two that holds the columns,
`E` the edges that are gathered at a time. Arrays are those of `kernels.py`, contiguous.
"""

# Triton compiles these functions; annotations other than constexpr mean nothing to it.
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl


@triton.jit
def weighted_sum(indptr, indices, weight, x, out, d, D: tl.constexpr, E: tl.constexpr):
    """out_j = sum_l w_jl x_l, for D columns of one row."""
    row = tl.program_id(0).to(tl.int64)  # 64 bits: a large slide has more than 2^31 numbers
    c = tl.program_id(1) * D + tl.arange(0, D)
    total = tl.zeros([D], tl.float32)
    end = tl.load(indptr + row + 1)
    for start in range(tl.load(indptr + row), end, E):
        e = start + tl.arange(0, E)
        column = tl.load(indices + e, mask=e < end, other=0).to(tl.int64)
        w = tl.load(weight + e, mask=e < end, other=0.0)
        inside = (e < end)[:, None] & (c < d)[None, :]
        values = tl.load(x + column[:, None] * d + c[None, :], mask=inside, other=0.0)
        total += tl.sum(w[:, None] * values.to(tl.float32), axis=0)
    tl.store(out + row * d + c, total, mask=c < d)


@triton.jit
def halves(y, receive, send, s, t, heads, d, D: tl.constexpr):
    """s_j = receive . y_j and t_j = send . y_j, of one row and head."""
    at = tl.program_id(0).to(tl.int64)  # row * heads + head
    c = tl.arange(0, D)
    own = tl.load(y + at * d + c, mask=c < d, other=0.0).to(tl.float32)
    u = tl.load(receive + at % heads * d + c, mask=c < d, other=0.0).to(tl.float32)
    v = tl.load(send + at % heads * d + c, mask=c < d, other=0.0).to(tl.float32)
    tl.store(s + at, tl.sum(own * u, axis=0))
    tl.store(t + at, tl.sum(own * v, axis=0))


@triton.jit
def _scores(own, t, weight, column, e, end, head, heads, slope):
    """LeakyReLU(s_j + t_l) + log w_jl; minus infinity beyond the end of the row."""
    score = own + tl.load(t + column * heads + head, mask=e < end, other=0.0)
    score = tl.where(score < 0, score * slope, score)
    return tl.where(e < end, score + tl.log(tl.load(weight + e, mask=e < end, other=1.0)), float("-inf"))


@triton.jit(do_not_specialize=["edges"])
def attention(
    indptr, indices, weight, s, t, y, alpha, out, edges, heads, d, slope, D: tl.constexpr, E: tl.constexpr
):  # fmt: skip
    """alpha_jl, the softmax of a row's scores, and out_j = sum_l alpha_jl y_l."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, D)
    own = tl.load(s + row * heads + head)
    begin, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    top, total = -3e38, 0.0  # the largest score so far, and the sum of exp(score - top)
    for start in range(begin, end, E):
        e = start + tl.arange(0, E)
        column = tl.load(indices + e, mask=e < end, other=0).to(tl.int64)
        score = _scores(own, t, weight, column, e, end, head, heads, slope)
        new = tl.maximum(top, tl.max(score, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(score - new), axis=0)
        top = new
    scale = 1.0 / tl.where(total > 0, total, 1.0)
    result = tl.zeros([D], tl.float32)
    for start in range(begin, end, E):
        e = start + tl.arange(0, E)
        column = tl.load(indices + e, mask=e < end, other=0).to(tl.int64)
        p = tl.exp(_scores(own, t, weight, column, e, end, head, heads, slope) - top) * scale
        tl.store(alpha + head.to(tl.int64) * edges + e, p, mask=e < end)
        inside = (e < end)[:, None] & (c < d)[None, :]
        values = tl.load(y + (column * heads + head)[:, None] * d + c[None, :], mask=inside, other=0.0)
        result += tl.sum(p[:, None] * values.to(tl.float32), axis=0)
    tl.store(out + (row * heads + head) * d + c, result, mask=c < d)


@triton.jit
def dots(a, b, out, d, D: tl.constexpr):
    """out_j = a_j . b_j, of one row and head."""
    at = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, D)
    left = tl.load(a + at * d + c, mask=c < d, other=0.0).to(tl.float32)
    right = tl.load(b + at * d + c, mask=c < d, other=0.0).to(tl.float32)
    tl.store(out + at, tl.sum(left * right, axis=0))


@triton.jit(do_not_specialize=["edges"])
def attention_backward(
    indptr, indices, reverse, s, t, alpha, inner, y, g, send, dy, dt, de, edges, heads, d, slope,
    D: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """As in `kernels.attention_backward`: dy_i without its term in ds, dt_i, and de of the edges (l, i) stored at e."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, D)
    at, first = row * heads + head, head.to(tl.int64) * edges
    own = tl.load(t + at)
    yi = tl.load(y + at * d + c, mask=c < d, other=0.0).to(tl.float32)
    total = 0.0
    result = tl.zeros([D], tl.float32)
    end = tl.load(indptr + row + 1)
    for start in range(tl.load(indptr + row), end, E):
        e = start + tl.arange(0, E)
        column = tl.load(indices + e, mask=e < end, other=0).to(tl.int64)
        p = tl.load(alpha + first + tl.load(reverse + e, mask=e < end, other=0), mask=e < end, other=0.0)
        inside = (e < end)[:, None] & (c < d)[None, :]
        gl = tl.load(g + (column * heads + head)[:, None] * d + c[None, :], mask=inside, other=0.0).to(tl.float32)
        result += tl.sum(p[:, None] * gl, axis=0)
        grad = p * (tl.sum(gl * yi[None, :], axis=1) - tl.load(inner + column * heads + head, mask=e < end, other=0.0))
        score = tl.load(s + column * heads + head, mask=e < end, other=0.0) + own
        grad = tl.where(score < 0, grad * slope, grad)
        tl.store(de + first + e, grad, mask=e < end)
        total += tl.sum(grad, axis=0)
    tl.store(dt + at, total)
    v = tl.load(send + head * d + c, mask=c < d, other=0.0).to(tl.float32)
    tl.store(dy + at * d + c, result + total * v, mask=c < d)


@triton.jit(do_not_specialize=["edges"])
def attention_backward_own(
    indptr, reverse, de, receive, part, dy, ds, edges, heads, d, D: tl.constexpr, E: tl.constexpr
):  # fmt: skip
    """ds_j = sum_l de_jl, where de is stored transposed; dy_j = part_j + ds_j receive."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, D)
    at, first = row * heads + head, head.to(tl.int64) * edges
    total = 0.0
    end = tl.load(indptr + row + 1)
    for start in range(tl.load(indptr + row), end, E):
        e = start + tl.arange(0, E)
        place = tl.load(reverse + e, mask=e < end, other=0)
        total += tl.sum(tl.load(de + first + place, mask=e < end, other=0.0), axis=0)
    tl.store(ds + at, total)
    u = tl.load(receive + head * d + c, mask=c < d, other=0.0).to(tl.float32)
    tl.store(dy + at * d + c, tl.load(part + at * d + c, mask=c < d, other=0.0) + total * u, mask=c < d)
