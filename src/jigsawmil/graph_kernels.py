"""Loops of graph construction that Numba compiles."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

ROWS = 4  # of a block
LANES = 16  # float32 numbers of a vector
ABSENT = np.float32(-3e38)  # in place of the logarithm of a weight where there is no edge
LEAST = np.float32(-2e38)  # in place of the logarithm of 0; both are finite


class Blocks(NamedTuple):
    """The rows of a graph by fours, which share most of their columns: each block is a small dense matrix.

    start: (block + 1,) where the columns of each block begin, a multiple of LANES. columns: of all blocks, ascending
    within one, its last one repeated. size: (block,) how many of them are multiplied, a multiple of 4. log_weight:
    (4 x column,) block by block, and in it row by row. column_ptr: (patch + 1,) and places: where each patch stands in
    `columns`. most: columns of a block.
    """

    start: NDArray[np.int32]
    columns: NDArray[np.int32]
    size: NDArray[np.int32]
    log_weight: NDArray[np.float32]
    column_ptr: NDArray[np.int32]
    places: NDArray[np.int32]
    most: int


def blocks_of(indptr: NDArray[np.int32], indices: NDArray[np.int32], log_weight: NDArray[np.float32]) -> Blocks:
    n = len(indptr) - 1
    count = -(-n // ROWS)
    start, size, column_ptr = np.zeros(count + 1, np.int32), np.empty(count, np.int32), np.zeros(n + 1, np.int32)
    columns = np.empty(len(indices) + LANES * count, np.int32)
    most = _find_columns(indptr, indices, start, size, columns, column_ptr)
    columns, places = columns[: start[-1]].copy(), np.empty(column_ptr[-1], np.int32)
    spread = np.full(ROWS * len(columns), ABSENT)
    _fill_blocks(indptr, indices, log_weight, start, columns, spread, column_ptr, places)
    return Blocks(start, columns, size, spread, column_ptr, places, int(most))


@njit(cache=True, nogil=True)
def _row(j, distance, neighbours, again, wide, wide_neighbours):  # type: ignore[no-untyped-def]
    if again[j] >= 0:
        return wide_neighbours[again[j]], wide[again[j]]
    return neighbours[j], distance[j]


@njit(cache=True, nogil=True)
def union_of_neighbours(rows, radius):  # type: ignore[no-untyped-def]
    """CSR of "l is near j or j is near l", rows ascending.

    Patches are visited in order and enter the rows of those they name, so rows come out sorted. Where l names j but j
    does not name l, l's own row lacks j: such pairs wait until j is visited, and enter then.
    """
    n = len(radius)
    indptr = np.zeros(n + 1, dtype=np.int32)
    waiting = np.zeros(n + 1, dtype=np.int32)  # by the patch that is waited for
    for j in range(n):
        near, d = _row(j, *rows)
        for m in range(len(d)):
            if d[m] > radius[j]:
                break
            indptr[near[m] + 1] += 1
            if d[m] > radius[near[m]]:
                indptr[j + 1] += 1
                waiting[near[m] + 1] += 1
    for j in range(n):
        indptr[j + 1] += indptr[j]
        waiting[j + 1] += waiting[j]

    late = np.empty(waiting[n], dtype=np.int32)
    late_d = np.empty(waiting[n], dtype=np.float32)
    place = waiting[:-1].copy()
    for j in range(n):
        near, d = _row(j, *rows)
        for m in range(len(d)):
            if d[m] > radius[j]:
                break
            if d[m] > radius[near[m]]:
                at = place[near[m]]
                place[near[m]] += 1
                late[at], late_d[at] = j, d[m]

    indices = np.empty(indptr[n], dtype=np.int32)
    values = np.empty(indptr[n], dtype=np.float32)
    place = indptr[:-1].copy()
    for j in range(n):
        near, d = _row(j, *rows)
        for m in range(len(d)):
            if d[m] > radius[j]:
                break
            at = place[near[m]]
            place[near[m]] += 1
            indices[at], values[at] = j, d[m]
        for e in range(waiting[j], waiting[j + 1]):
            at = place[late[e]]
            place[late[e]] += 1
            indices[at], values[at] = j, late_d[e]
    return indptr, indices, values


@njit(cache=True, nogil=True)
def reverse_edges(indptr, indices):  # type: ignore[no-untyped-def]
    """Position of edge (l, j) for each edge (j, l): rows are visited in order, so each row's edges arrive in theirs."""
    position = np.empty(len(indices), dtype=np.int32)
    place = indptr[:-1].copy()
    for e in range(len(indices)):
        at = place[indices[e]]
        place[indices[e]] += 1
        position[at] = e
    return position


@njit(cache=True, nogil=True)
def _find_columns(indptr, indices, start, size, columns, column_ptr):  # type: ignore[no-untyped-def]
    """The union of the columns of each block, and how many blocks each column is in, summed up."""
    n, most = len(indptr) - 1, 0
    at = np.empty(ROWS, np.int64)
    for block in range(len(start) - 1):
        first = ROWS * block
        rows = min(ROWS, n - first)
        for r in range(rows):
            at[r] = indptr[first + r]
        begin = start[block]
        end = begin
        while True:
            least = n
            for r in range(rows):
                if at[r] < indptr[first + r + 1]:
                    least = min(least, indices[at[r]])
            if least == n:
                break
            for r in range(rows):
                if at[r] < indptr[first + r + 1] and indices[at[r]] == least:
                    at[r] += 1
            columns[end] = least
            column_ptr[least + 1] += 1
            end += 1
        size[block] = -(-(end - begin) // 4) * 4
        while (end - begin) % LANES:
            columns[end] = columns[end - 1]
            end += 1
        start[block + 1] = end
        most = max(most, end - begin)
    for j in range(n):
        column_ptr[j + 1] += column_ptr[j]
    return most


@njit(cache=True, nogil=True)
def _fill_blocks(indptr, indices, log_weight, start, columns, spread, column_ptr, places):  # type: ignore[no-untyped-def]
    n, found, place = len(indptr) - 1, column_ptr[:-1].copy(), np.empty(len(indptr), np.int32)
    for block in range(len(start) - 1):
        begin, end = start[block], start[block + 1]
        for k in range(begin, end):
            j = columns[k]
            if k == begin or j > columns[k - 1]:
                place[j] = k - begin
                places[found[j]] = k
                found[j] += 1
        for j in range(ROWS * block, min(n, ROWS * block + ROWS)):
            row = ROWS * begin + (j - ROWS * block) * (end - begin)
            for e in range(indptr[j], indptr[j + 1]):
                spread[row + place[indices[e]]] = max(LEAST, log_weight[e])
