"""Things read from disk: kept while there is room, and read ahead of need."""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
V = TypeVar("V")
S = TypeVar("S", bound=Sized)


class Store(Generic[K, S]):
    """What `read` gives for a key, kept in memory up to a budget of bytes; safe to use from several threads.

    spill: called with the key and what there is no room for, each time that was read.

    First come, first kept, and nothing is evicted. Training goes through all slides epoch after epoch: the least
    recently used one is then the one needed soonest, and a cohort just above the budget would find nothing kept.
    Keeping what came first spares budget / size of the reading, whatever the order.
    """

    def __init__(
        self, read: Callable[[K], S], budget: float, spill: Callable[[K, S], None] = lambda key, value: None
    ) -> None:
        self._read, self._budget, self._spill = read, budget, spill
        self._kept: dict[K, S] = {}
        self._used = 0
        self._lock = threading.Lock()

    def get(self, key: K) -> S:
        value = self._kept.get(key)
        if value is None:
            value = self._read(key)  # outside the lock: two threads may read one file, but none waits for the other
            with self._lock:
                if key not in self._kept and self._used + value.nbytes <= self._budget:
                    self._kept[key] = value
                    self._used += value.nbytes
            if key not in self._kept:
                self._spill(key, value)
        return value


def read_ahead(read: Callable[[A], V], wanted: Iterable[A], depth: int = 4) -> Iterator[V]:
    """What `read` gives for each item, in order, up to `depth` of them read ahead in one background thread.

    An error in reading is raised where its item would have come. Leaving the loop early ends the thread.
    """
    reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
    ahead: deque[Future[V]] = deque()
    try:
        for item in wanted:
            ahead.append(reader.submit(read, item))
            if len(ahead) > depth:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:  # also where the consumer closes the generator
        reader.shutdown(wait=True, cancel_futures=True)
