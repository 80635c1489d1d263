"""The digest of a slide's features knows their content, and nothing of how they are stored."""

from pathlib import Path

import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.digest import content_digest
from jigsawmil.bags.formats import read_bag, write_bag

FEATURES = torch.randn(50, 12, generator=torch.Generator().manual_seed(0))


def test_order_and_precision_do_not_change_it() -> None:
    mark = content_digest(FEATURES)
    assert content_digest(FEATURES[torch.randperm(50)]) == mark
    assert content_digest(FEATURES.half().float()) == mark
    assert len(mark) == 16


def test_other_content_does() -> None:
    mark = content_digest(FEATURES)
    changed = FEATURES.clone()
    changed[7, 3] = 9.0
    assert len({mark, content_digest(changed), content_digest(FEATURES[1:]), content_digest(FEATURES[:, 1:])}) == 4
    assert content_digest(torch.zeros(4, 2)) == content_digest(-torch.zeros(4, 2))


def test_the_same_in_other_files(tmp_path: Path) -> None:
    bag = Bag(slide_id="a", features=FEATURES, coords=256 * torch.rand(50, 2).double(), patch_size=256.0)
    write_bag(bag, tmp_path / "a.h5")
    half = Bag(slide_id="b", features=FEATURES.half(), coords=bag.coords + 512, patch_size=512.0)
    write_bag(half, tmp_path / "b.h5")
    marks = {content_digest(read_bag(tmp_path / name).features) for name in ("a.h5", "b.h5")}
    assert marks == {content_digest(FEATURES)}
