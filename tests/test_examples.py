"""The examples run, on less than they are meant for."""

import importlib.util
import json
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

EXAMPLES = Path(__file__).parents[1] / "examples"


class MeanColour(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean(dim=[2, 3]), x.std(dim=[2, 3])], dim=1)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_whole_way_from_slides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six slides of about twelve tiles, an encoder of six numbers: that it runs, and that the pieces fit together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and what people have
        torch.jit.script(MeanColour()).save(str(tmp_path / "colour.pt"))
    (tmp_path / "colour.pt.json").write_text(json.dumps({"size": 32}))
    out = tmp_path / "out"
    example("from_slides").whole_way(
        out, slides=6, patches=12, kind="composition", encoder=str(tmp_path / "colour.pt"), folds=2, epochs=2
    )
    printed = capsys.readouterr().out
    assert "jigsawmil.cli" not in (EXAMPLES / "from_slides.py").read_text()  # the library can do all of it
    assert all(method in printed for method in ("abmil", "graph-abmil+jigsaw"))
    assert "6 slides: 6 done" in printed
    summary = pd.read_csv(out / "run" / "summary.csv")
    assert summary["variant"].tolist() == ["abmil", "graph-abmil+jigsaw"]
    assert json.loads((out / "model" / "model.json").read_text())["patch_um"] == 128
    table = pd.read_csv(out / "predictions.csv", dtype={"slide_id": str})
    assert table["slide_id"].tolist() == ["0001", "0002"]
    for name in table["slide_id"]:
        assert np.asarray(Image.open(out / "maps" / f"{name}.png").convert("L")).std() > 10
