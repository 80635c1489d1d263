"""Kept while there is room, read ahead of need, ended when nobody listens."""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from jigsawmil.bags.store import Store, read_ahead


@dataclass(frozen=True)
class Item:
    name: str
    nbytes: int


def store(budget: float, sizes: dict[str, int]) -> tuple[Store[str, Item], Counter[str]]:
    reads: Counter[str] = Counter()

    def read(name: str) -> Item:
        reads[name] += 1
        return Item(name, sizes[name])

    return Store(read, budget), reads


def test_what_fits_is_read_once() -> None:
    kept, reads = store(30, dict.fromkeys("abc", 10))
    first = [kept.get(name) for name in "abcabc"]
    assert reads == Counter("abc")
    assert first[0] is first[3]


def test_the_budget_is_never_passed_and_what_came_first_stays() -> None:
    kept, reads = store(25, {"a": 10, "b": 10, "c": 10, "d": 5})
    for _ in range(3):
        assert [kept.get(name).name for name in "abcd"] == list("abcd")
    assert reads == {"a": 1, "b": 1, "c": 3, "d": 1}  # d fits where c does not


def test_nothing_is_kept_without_a_budget() -> None:
    kept, reads = store(0, {"a": 1})
    assert [kept.get("a").name for _ in range(3)] == ["a"] * 3
    assert reads["a"] == 3


def test_threads_share_it_and_count_the_bytes_once() -> None:
    gate = threading.Barrier(4)
    reads: Counter[str] = Counter()

    def read(name: str) -> Item:
        reads[name] += 1
        if name == "a":
            gate.wait(5)  # four threads read the same thing at once
        return Item(name, 10)

    kept = Store(read, 20)
    threads = [threading.Thread(target=kept.get, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(2):
        kept.get("b")
    assert (reads["a"], reads["b"]) == (4, 1)


def test_an_error_is_not_kept() -> None:
    answers = iter([ValueError("busy"), Item("a", 1)])

    def read(name: str) -> Item:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    kept = Store(read, 10)
    with pytest.raises(ValueError, match="busy"):
        kept.get("a")
    assert kept.get("a").name == "a"


def prefetchers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize("depth", [1, 4, 100])
def test_reading_ahead_keeps_the_order(depth: int) -> None:
    assert list(read_ahead(lambda x: x * x, range(10), depth)) == [x * x for x in range(10)]
    assert list(read_ahead(abs, [], depth)) == []
    assert not prefetchers()


def test_no_more_is_read_than_the_depth() -> None:
    seen: list[int] = []
    stream = read_ahead(lambda x: seen.append(x) or x, range(100), depth=3)
    assert not seen  # nothing before the first is asked for
    for i in range(5):
        assert next(stream) == i
        assert len(seen) <= i + 4
    stream.close()  # type: ignore[attr-defined]
    assert len(seen) <= 8


def test_the_list_itself_is_read_as_it_is_needed() -> None:
    taken: list[int] = []

    def endless() -> Iterator[int]:
        i = 0
        while True:
            taken.append(i)
            yield i
            i += 1

    stream = read_ahead(abs, endless(), depth=2)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    assert len(taken) == 5
    stream.close()  # type: ignore[attr-defined]


def test_an_error_comes_where_its_item_would_have_come() -> None:
    stream = read_ahead(lambda x: 1 // x, [1, 1, 0, 1], depth=4)
    assert [next(stream), next(stream)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert not prefetchers()


def test_leaving_early_ends_the_thread() -> None:
    for i in read_ahead(abs, range(1000)):
        if i == 2:
            break
    assert not prefetchers()


def test_reading_happens_beside_the_reader() -> None:
    (name,) = set(read_ahead(lambda x: threading.current_thread().name, [1, 2]))
    assert name.startswith("prefetch")
