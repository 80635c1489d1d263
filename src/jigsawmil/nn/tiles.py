"""Inner loops in bfloat16 of `kernels16.py`, written in LLVM's own terms: sums and dot products over a block of four
rows, 16 numbers at a time, in registers from beginning to end.

Numba has no bfloat16 and does not keep such a block in registers. Two neighbouring numbers a, b of a row lie in one
32-bit word; as float32, word << 16 is a and word & 0xFFFF0000 is b. So a row of words becomes two vectors, of the even
and of the odd numbers, without any shuffle. Vectors of float32 that are combined with them lie in the same order: see
`split_order`. LLVM lowers vectors of 16 to what the processor has.
"""

# Compiled code has no use for annotations.
# mypy: disable-error-code="no-untyped-def"

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from ..graph_kernels import LANES, ROWS

WORDS = 2 * LANES  # numbers in a vector of words: what a dot product takes at a time
WIDE = 2 * WORDS  # what a sum takes at a time; widths are multiples of it

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_INTS, _FLOATS = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES)


def split_order(width: int) -> NDArray[np.int64]:
    """Where the numbers of a row stand once it is split into even and odd ones, 32 at a time."""
    return np.arange(width).reshape(-1, LANES, 2).transpose(0, 2, 1).ravel()


def _all(value: int) -> ir.Constant:
    return ir.Constant(_INTS, [ir.Constant(_I32, value)] * LANES)


def _load(builder: Any, kind: Any, address: Any, offset: Any, align: int) -> Any:
    """offset: bytes"""
    place = builder.inttoptr(builder.add(address, offset), kind.as_pointer())
    return builder.load(place, align=align)


def _store(builder: Any, value: Any, address: Any, offset: Any, align: int) -> None:
    place = builder.inttoptr(builder.add(address, offset), value.type.as_pointer())
    builder.store(value, place, align=align)


def _bytes(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _split(builder: Any, words: Any) -> list[Any]:
    """The even and the odd numbers as float32."""
    even, odd = builder.shl(words, _all(16)), builder.and_(words, _all(0xFFFF0000))
    return [builder.bitcast(part, _FLOATS) for part in (even, odd)]


def _join(builder: Any, even: Any, odd: Any) -> Any:
    """Words of the nearest bfloat16 numbers, ties to even."""
    rounded = []
    for part in (even, odd):
        bits = builder.bitcast(part, _INTS)
        tie = builder.and_(builder.lshr(bits, _all(16)), _all(1))
        rounded.append(builder.add(bits, builder.add(tie, _all(0x7FFF))))
    return builder.or_(builder.lshr(rounded[0], _all(16)), builder.and_(rounded[1], _all(0xFFFF0000)))


def _splat(builder: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(_INTS, [ir.Constant(_I32, 0)] * LANES))


def _fma(builder: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
    return lambda a, b, c: builder.call(function, [a, b, c])


class _Bfloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not know."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bfloat)

    def __hash__(self) -> int:
        return hash(_Bfloat)


def _dot_pairs(builder: Any) -> Any:
    """c + a0 b0 + a1 b1 in each lane, whose words hold a0, a1 and b0, b1: the processor's own instruction."""
    pairs = ir.VectorType(_Bfloat(), 2 * LANES)
    kind = ir.FunctionType(_FLOATS, [_FLOATS, pairs, pairs])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512bf16.dpbf16ps.512")
    return lambda a, b, c: builder.call(function, [c, builder.bitcast(a, pairs), builder.bitcast(b, pairs)])


def _interleave(builder: Any, rows: Any) -> list[Any]:
    """Of two rows of words: pairs of their even numbers, and of their odd ones."""
    a, b = rows
    low, high = _all(0xFFFF), _all(0xFFFF0000)
    even = builder.or_(builder.and_(a, low), builder.shl(b, _all(16)))
    return [even, builder.or_(builder.lshr(a, _all(16)), builder.and_(b, high))]


def _zeros(builder: Any, count: int) -> list[Any]:
    """Vectors that LLVM keeps in registers."""
    places = [cgutils.alloca_once(builder, _FLOATS) for _ in range(count)]
    for place in places:
        builder.store(ir.Constant(_FLOATS, [ir.Constant(_F32, 0.0)] * LANES), place)
    return places


class Way(NamedTuple):
    """How words are multiplied and added up in float32. rows: of x that a sum takes at a time. together: the even and
    the odd numbers of these rows, from their words. factors: the vectors of a row's words for a dot product."""

    rows: int
    together: Callable[[Any, list[Any]], list[Any]]
    factors: Callable[[Any, Any], list[Any]]
    multiply: Callable[[Any], Callable[[Any, Any, Any], Any]]


WIDENED = Way(1, lambda builder, rows: _split(builder, rows[0]), _split, _fma)
NATIVE = Way(2, _interleave, lambda builder, words: [words], _dot_pairs)


def _way(kind: types.Array) -> Way:
    """By the type of shares, see `share_type` of `sparse16.py`."""
    return NATIVE if kind.dtype == types.uint16 else WIDENED


@intrinsic
def sum_tile(typingctx, share, share_step, columns, count, x, step, own, one, other, out, out_step):
    """out_r = sum_u share_ru x_u + own_r0 one + own_r1 other, of 64 columns, for the four rows r of a block.

    All but share are addresses, or count, of columns u, and the steps in bytes from row to row. share: float32, or
    bfloat16 as uint16; own (r, 2), one and other (64, in split order) are float32; x and out bfloat16; columns int32.
    """
    given = (share, share_step, columns, count, x, step, own, one, other, out, out_step)
    way = _way(share)

    def codegen(context, builder, signature, args):
        share, share_step, columns, count, x, step, own, one, other, out, out_step = args
        share = builder.ptrtoint(context.make_array(signature.args[0])(context, builder, share).data, _I64)
        multiply, fma, sums = way.multiply(builder), _fma(builder), _zeros(builder, ROWS * 4)
        shares = [builder.add(share, builder.mul(share_step, _bytes(r))) for r in range(ROWS)]
        with cgutils.for_range(builder, builder.udiv(count, _bytes(way.rows))) as loop:
            rows = []
            for place in range(way.rows):
                u = builder.add(builder.mul(loop.index, _bytes(way.rows)), _bytes(place))
                column = builder.sext(_load(builder, _I32, columns, builder.mul(u, _bytes(4)), 4), _I64)
                rows.append(builder.add(x, builder.mul(column, step)))
            parts = [
                part
                for half in range(2)
                for part in way.together(builder, [_load(builder, _INTS, r, _bytes(4 * LANES * half), 2) for r in rows])
            ]
            for r in range(ROWS):
                word = _load(builder, _F32, shares[r], builder.mul(loop.index, _bytes(4)), 4)  # one float32, or a pair
                weight = _splat(builder, word)
                for part, place in zip(parts, sums[4 * r : 4 * r + 4], strict=True):
                    builder.store(multiply(weight, part, builder.load(place)), place)
        for r in range(ROWS):
            row = builder.add(out, builder.mul(out_step, _bytes(r)))
            done = []
            for q in range(4):
                value = builder.load(sums[4 * r + q])
                for place, (vector, factor) in enumerate(((one, own), (other, own))):
                    scale = _splat(builder, _load(builder, _F32, factor, _bytes(8 * r + 4 * place), 4))
                    value = fma(scale, _load(builder, _FLOATS, vector, _bytes(4 * LANES * q), 4), value)
                done.append(value)
            for half in range(2):
                words = _join(builder, done[2 * half], done[2 * half + 1])
                _store(builder, words, row, _bytes(4 * LANES * half), 2)
        return context.get_dummy_value()

    return types.void(*given), codegen


@intrinsic
def dot_tile(typingctx, share, rows, rows_step, columns, x, step, width, dots, dots_step):
    """dots_ru = rows_r . x_u, for four columns u and the four rows r of a block.

    share: an array whose type says how, as in `sum_tile`. The others are addresses, or width, in numbers, and the steps
    in bytes. rows and x are bfloat16, dots float32.
    """
    given = (share, rows, rows_step, columns, x, step, width, dots, dots_step)
    way = _way(share)

    def codegen(context, builder, signature, args):
        _, rows, rows_step, columns, x, step, width, dots, dots_step = args
        multiply, sums = way.multiply(builder), _zeros(builder, ROWS * 4)
        others = []
        for u in range(4):
            column = builder.sext(_load(builder, _I32, columns, _bytes(4 * u), 4), _I64)
            others.append(builder.add(x, builder.mul(column, step)))
        owns = [builder.add(rows, builder.mul(rows_step, _bytes(r))) for r in range(ROWS)]
        with cgutils.for_range(builder, builder.udiv(width, _bytes(WORDS))) as loop:
            at = builder.mul(loop.index, _bytes(4 * LANES))
            mine = [way.factors(builder, _load(builder, _INTS, row, at, 2)) for row in owns]
            for u, other in enumerate(others):
                theirs = way.factors(builder, _load(builder, _INTS, other, at, 2))
                for r in range(ROWS):
                    place = sums[4 * r + u]
                    value = builder.load(place)
                    for a, b in zip(mine[r], theirs, strict=True):
                        value = multiply(a, b, value)
                    builder.store(value, place)
        vectors = [builder.load(place) for place in sums]
        while len(vectors) > 1:  # each vector becomes its own sum: neighbours are added, 16 vectors become one
            vectors = [_add_neighbours(builder, a, b) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
        for r in range(ROWS):
            quarter = ir.Constant(ir.VectorType(_I32, 4), [ir.Constant(_I32, 4 * r + u) for u in range(4)])
            row = builder.add(dots, builder.mul(dots_step, _bytes(r)))
            _store(builder, builder.shuffle_vector(vectors[0], vectors[0], quarter), row, _bytes(0), 4)
        return context.get_dummy_value()

    return types.void(*given), codegen


def _add_neighbours(builder: Any, a: Any, b: Any) -> Any:
    """a0 + a1, a2 + a3, ..., b0 + b1, ..."""
    first, second = (
        builder.shuffle_vector(a, b, ir.Constant(_INTS, [ir.Constant(_I32, 2 * i + odd) for i in range(LANES)]))
        for odd in range(2)
    )
    return builder.fadd(first, second)


@intrinsic
def widen(typingctx, bits):
    """The float32 of a bfloat16, whose bits are given as uint16."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.shl(builder.zext(args[0], _I32), ir.Constant(_I32, 16)), _F32)

    return types.float32(types.uint16), codegen


def _nearest(context, builder, signature, args):
    bits = builder.bitcast(args[0], _I32)
    tie = builder.and_(builder.lshr(bits, ir.Constant(_I32, 16)), ir.Constant(_I32, 1))
    rounded = builder.add(bits, builder.add(tie, ir.Constant(_I32, 0x7FFF)))
    return builder.trunc(builder.lshr(rounded, ir.Constant(_I32, 16)), ir.IntType(16))


@intrinsic
def narrow(typingctx, value):
    """The bits, as uint16, of the bfloat16 that is nearest to a float32, ties to even."""
    return types.uint16(types.float32), _nearest


@intrinsic
def to_share(typingctx, value, share):
    """A float32 as an item of `share`."""
    if share.dtype == types.uint16:
        return types.uint16(types.float32, share), _nearest
    return types.float32(types.float32, share), lambda context, builder, signature, args: args[0]


@intrinsic
def power_of_two(typingctx, exponent):
    """2^n as float32, n an int32 from -126 to 127."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.shl(builder.add(args[0], ir.Constant(_I32, 127)), ir.Constant(_I32, 23)), _F32)

    return types.float32(types.int32), codegen
