"""Slides on their way to the model: prepared once, within the budget, pooled by patient, shuffled within a slide."""

import dataclasses
import gc
import weakref
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.disk_cache import FOLDER, SIZE
from jigsawmil.bags.formats import write_bag
from jigsawmil.cohort.cohort import Cohort, LabelledSlide
from jigsawmil.errors import FeatureError
from jigsawmil.graph_config import GraphConfig, Raster
from jigsawmil.nn.batch import Batch
from jigsawmil.train.feed import Feed
from jigsawmil.train.prepared import shuffle_places

GRAPH = GraphConfig(k=4)


def counting(cohort: Cohort) -> tuple[Cohort, Counter[str]]:
    reads: Counter[str] = Counter()

    def read(slide: LabelledSlide) -> Bag:
        reads[slide.slide_id] += 1
        return cohort.read_slide(slide)

    return dataclasses.replace(cohort, read_slide=read), reads


def each(feed: Feed) -> list[list[int]]:
    return [[bag] for bag in range(len(feed))]


def test_every_slide_is_read_and_prepared_once(cohort: Cohort) -> None:
    watched, reads = counting(cohort)
    feed = Feed(watched, GRAPH, raster=Raster(3))
    assert not reads  # nothing before it is needed
    for _ in range(3):
        first = list(feed.stream(each(feed)))
    assert set(reads.values()) == {1}
    assert len(reads) == len(cohort)
    assert feed.batch([2]) is first[2]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_what_is_kept_stays_within_the_budget(cohort: Cohort, share: float) -> None:
    watched, reads = counting(cohort)
    stream = Feed(cohort, GRAPH, raster=Raster(3)).stream([[i] for i in range(len(cohort))])
    sizes = {b.slide_ids[0]: b.nbytes for b in stream}
    budget = share * sum(sizes.values())
    feed = Feed(watched, GRAPH, raster=Raster(3), memory_gb=budget / 1e9)
    for _ in range(2):
        list(feed.stream(each(feed)))
    kept = [slide for slide, count in reads.items() if count == 1]
    assert sum(sizes[slide] for slide in kept) <= budget
    assert len(kept) >= share * len(cohort) - 3  # and the budget is used


def test_a_batch_is_what_the_bags_make(cohort: Cohort) -> None:
    feed = Feed(cohort, GRAPH, raster=Raster(3))
    got, made = feed.batch([4, 1]), Batch.of([cohort.bag(4), cohort.bag(1)], GRAPH, Raster(3))
    assert got.slide_ids == made.slide_ids == (cohort.slides[4].slide_id, cohort.slides[1].slide_id)
    assert torch.equal(got.features, made.features)
    assert torch.equal(got.bins, made.bins)
    assert torch.equal(got.graph.indices, made.graph.indices)
    assert Feed(cohort, None, raster=Raster(3)).batch([0]).graph is None


def test_bags_are_found_by_their_slides(cohort: Cohort) -> None:
    feed = Feed(cohort, None, raster=Raster(3))
    ids = [str(cohort.slide_ids[i]) for i in (7, 2, 11)]
    assert feed.bags_of(ids) == [2, 7, 11]
    assert feed.labels.tolist() == cohort.labels.tolist()
    assert feed.bags_of([]) == []


def test_a_patient_is_one_bag_of_all_its_slides(cohort: Cohort) -> None:
    feed = Feed(cohort, GRAPH, raster=Raster(3), level="patient")
    patients = list(dict.fromkeys(cohort.patients))
    assert len(feed) == len(patients) < len(cohort)
    for bag, patient in enumerate(patients):
        slides = [i for i in range(len(cohort)) if cohort.patients[i] == patient]
        batch = feed.batch([bag])
        assert batch.slide_ids == tuple(cohort.slide_ids[slides])
        assert batch.bags == ((0, sum(len(cohort.bag(i)) for i in slides)),)
        assert feed.labels[bag] == cohort.labels[slides[0]]
        for slide in slides:  # found by any of them
            assert feed.bags_of([str(cohort.slide_ids[slide])]) == [bag]


def test_no_edge_joins_two_slides_of_a_patient(cohort: Cohort) -> None:
    feed = Feed(cohort, GraphConfig(k=500), raster=Raster(3), level="patient")  # every patch would reach every other
    bag = next(b for b, slides in enumerate(feed.members) if len(slides) == 2)
    batch = feed.batch([bag, 0])
    graph, owner = batch.graph, np.repeat(range(len(batch.slides)), np.diff(batch.slide_ptr))
    rows = np.repeat(np.arange(len(owner)), np.diff(graph.indptr.numpy()))
    assert (owner[rows] == owner[graph.indices.numpy()]).all()
    sizes = np.diff(batch.slide_ptr)
    assert graph.edges == (sizes**2).sum()  # and within a slide all are joined
    assert len(batch) == 2
    assert len(batch.slides) == 2 + len(feed.members[0])


def test_shuffling_moves_patches_within_their_slide_only(cohort: Cohort) -> None:
    plain, moved = Feed(cohort, GRAPH, raster=Raster(3)), Feed(cohort, GRAPH, raster=Raster(3), shuffle=0)
    for i in range(4):
        bag = cohort.bag(i)
        other = shuffle_places(bag, 0)
        assert torch.equal(other.features, bag.features)
        assert not torch.equal(other.coords, bag.coords)
        assert sorted(map(tuple, other.coords.tolist())) == sorted(map(tuple, bag.coords.tolist()))
        one, two = plain.batch([i]), moved.batch([i])
        assert torch.equal(one.graph.indices, two.graph.indices)  # the places, and so the graph, are the same
        assert torch.equal(one.bins, two.bins)
        assert sorted(map(tuple, one.features.tolist())) == sorted(map(tuple, two.features.tolist()))
        assert not torch.equal(one.features, two.features)


def test_shuffling_depends_on_the_seed_and_the_slide_alone() -> None:
    coords = torch.arange(60, dtype=torch.float64).reshape(30, 2)
    a, b = (Bag(slide_id=name, features=torch.zeros(30, 4), coords=coords) for name in "ab")
    assert torch.equal(shuffle_places(a, 0).coords, shuffle_places(a, 0).coords)
    assert not torch.equal(shuffle_places(a, 0).coords, shuffle_places(a, 1).coords)
    assert not torch.equal(shuffle_places(a, 0).coords, shuffle_places(b, 0).coords)


def test_a_slide_that_cannot_be_read_is_named_where_it_would_have_come(cohort: Cohort) -> None:
    bad = cohort.slides[3].slide_id

    def read(slide: LabelledSlide) -> Bag:
        if slide.slide_id == bad:
            raise FeatureError(f"{bad}: damaged")
        return cohort.read_slide(slide)

    stream = Feed(dataclasses.replace(cohort, read_slide=read), GRAPH, raster=Raster(3)).stream([[i] for i in range(6)])
    assert [next(stream).slide_ids[0] for _ in range(3)] == cohort.slide_ids[:3].tolist()
    with pytest.raises(FeatureError, match=f"{bad}: damaged"):
        next(stream)


@pytest.fixture
def on_disk(tmp_path: Path, cohort: Cohort) -> Cohort:
    """Four slides in files: two in float16, two in float32."""
    (tmp_path / "features").mkdir()
    for i in range(4):
        bag = cohort.bag(i)
        bag = dataclasses.replace(bag, features=bag.features.half()) if i < 2 else bag
        write_bag(bag, tmp_path / "features" / f"{cohort.slides[i].slide_id}.h5")
    rows = [f"{slide.slide_id},{i % 2}" for i, slide in enumerate(cohort.slides[:4])]
    (tmp_path / "labels.csv").write_text("\n".join(["slide_id,label", *rows]))
    return Cohort.read(tmp_path / "labels.csv", tmp_path / "features")


def test_slides_from_files_are_prepared_once_too(on_disk: Cohort) -> None:
    """The cohort keeps no second copy beside the prepared slides."""
    feed = Feed(on_disk, GRAPH, raster=Raster(3))
    before = [feed.batch([i]).features.clone() for i in range(4)]
    for slide in on_disk.slides:
        assert slide.path is not None
        slide.path.unlink()
    assert all(torch.equal(feed.batch([i]).features, before[i]) for i in range(4))


def test_features_wait_as_narrow_as_they_were_stored(on_disk: Cohort) -> None:
    """And the model gets the numbers that the file holds, in float32."""
    feed = Feed(on_disk, GRAPH, raster=Raster(3))
    waiting = [feed.batch([i]) for i in range(4)]
    assert [batch.features.dtype for batch in waiting] == [torch.float16] * 2 + [torch.float32] * 2
    for i, batch in enumerate(waiting):
        made = Batch.of(on_disk.bag(i), GRAPH, Raster(3)).features
        assert made.dtype == batch.to("cpu").features.dtype == torch.float32
        assert torch.equal(batch.to("cpu").features, made)
    assert torch.equal(feed.batch([0, 2]).features, torch.cat([batch.to("cpu").features for batch in waiting[0:3:2]]))


def same(one: Batch, two: Batch) -> bool:
    """Bit for bit, in everything that a batch holds."""
    tensors = [(b.features, b.bins, b.order, b.coords, *(vars(b.graph)[f] for f in ARRAYS)) for b in (one, two)]
    equal = all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(*tensors, strict=True))
    return equal and (one.slide_ptr, one.slide_ids, one.covariates) == (two.slide_ptr, two.slide_ids, two.covariates)


ARRAYS = ("indptr", "indices", "weight", "reverse")


def test_what_memory_cannot_hold_is_kept_on_disk(
    on_disk: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read once for all feeds and graphs, by the content of its files, the same to the bit; never of other files."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    monkeypatch.setenv(SIZE, "1")
    held = Feed(on_disk, GRAPH, raster=Raster(3))
    held.batch([0, 1, 2, 3])
    assert not (tmp_path / "cache").exists()  # memory held it

    watched, reads = counting(on_disk)
    one = held.batch([0]).nbytes / 1e9
    feeds = [Feed(watched, GRAPH, raster=Raster(3), memory_gb=one) for _ in range(2)]
    for feed in (*feeds, feeds[0]):
        assert all(same(*pair) for pair in zip(feed.stream(each(feed)), held.stream(each(held)), strict=True))
    assert sorted(reads.values()) == [1, 1, 1, 2]  # each feed holds one of them in memory
    assert feeds[1].trained_on(on_disk.slide_ids.tolist()) == held.trained_on(on_disk.slide_ids.tolist())

    reads.clear()
    for graph, raster, shuffle in (
        (GraphConfig(k=6), Raster(3), None),
        (GRAPH, Raster(2), None),
        (GRAPH, Raster(3), 1),
    ):
        other, plain = (Feed(c, graph, raster, memory_gb=0, shuffle=shuffle) for c in (watched, on_disk))
        monkeypatch.setenv(SIZE, "0")
        uncached = Feed(on_disk, graph, raster, shuffle=shuffle)
        monkeypatch.setenv(SIZE, "1")
        for feed in (other, plain):
            assert all(same(*pair) for pair in zip(feed.stream(each(feed)), uncached.stream(each(feed)), strict=True))
    assert max(reads.values()) == 2  # the first slide, which had stayed in memory, and all once more when shuffled

    path = on_disk.slides[3].path
    assert path is not None
    write_bag(dataclasses.replace(on_disk.bag(3), features=on_disk.bag(3).features + 1), path)
    with pytest.raises(FeatureError, match="changed since"):
        feeds[1].batch([3])
    again = Cohort.read(tmp_path / "labels.csv", tmp_path / "features")
    assert torch.equal(Feed(again, GRAPH, Raster(3), memory_gb=0).batch([3]).features, held.batch([3]).features + 1)


def test_a_feed_that_nobody_needs_is_gone_at_once(cohort: Cohort) -> None:
    """With its slides: the next one's would else lie beside them until Python looks for cycles."""
    feed = Feed(cohort, GRAPH, raster=Raster(3))
    feed.batch([0])
    store = weakref.ref(feed._slides)
    gc.disable()
    try:
        del feed
        assert store() is None
    finally:
        gc.enable()
