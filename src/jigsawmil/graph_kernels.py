"""Loops of graph construction that Numba compiles."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

ROWS = 4  # of a block


class Blocks(NamedTuple):
    """The rows of a graph by fours, which share most of their columns.

    start: (block + 1,) where the columns of each block begin, a multiple of 4. columns: of all blocks, ascending within
    one, its last one repeated. slot: (edge,) 4 x the place of its column in the block + its row of the block. most:
    columns of a block.
    """

    start: NDArray[np.int32]
    columns: NDArray[np.int32]
    slot: NDArray[np.int32]
    most: int


def blocks_of(indptr: NDArray[np.int32], indices: NDArray[np.int32]) -> Blocks:
    count = -(-(len(indptr) - 1) // ROWS)
    start, slot = np.zeros(count + 1, np.int32), np.empty(len(indices), np.int32)
    columns = np.empty(len(indices) + ROWS * count, np.int32)
    most = _fill_blocks(indptr, indices, start, columns, slot)
    return Blocks(start, columns[: start[-1]].copy(), slot, int(most))


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
def _fill_blocks(indptr, indices, start, columns, slot):  # type: ignore[no-untyped-def]
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
                    slot[at[r]] = ROWS * (end - begin) + r
                    at[r] += 1
            columns[end] = least
            end += 1
        while (end - begin) % 4:
            columns[end] = columns[end - 1]
            end += 1
        start[block + 1] = end
        most = max(most, end - begin)
    return most
