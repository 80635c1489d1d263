"""Encoders of the hubs: their architectures with small random weights, from folders as they lie there."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from jigsawmil.errors import ConfigError
from jigsawmil.slides.encoders import ENCODERS, EncoderSpec, encode, hub, load_encoder
from jigsawmil.slides.encoders.preprocess import preprocess

NO_TIMM = "needs timm, which is not in this environment: pip install 'jigsawmil[encoders]'"
NO_TRANSFORMERS = "needs transformers, which is not in this environment: pip install 'jigsawmil[encoders]'"
TILES = torch.randint(0, 256, (2, 256, 256, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
SMALL = {"uni": 1, "uni2-h": 1, "virchow2": 1, "gigapath": 1, "h-optimus-0": 1, "h-optimus-1": 1, "resnet50": None}


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], EncoderSpec]:
    """The encoder's architecture with one block, known by the same name."""

    def make(name: str) -> EncoderSpec:
        depth = {} if SMALL[name] is None else {"depth": SMALL[name]}
        spec = replace(ENCODERS[name], build={**ENCODERS[name].build, **depth})
        monkeypatch.setitem(ENCODERS, name, spec)
        return spec

    return make


def timm_model(spec: EncoderSpec) -> nn.Module:
    import timm
    from timm.layers import SwiGLUPacked

    named = {"SwiGLUPacked": SwiGLUPacked, "SiLU": nn.SiLU}
    options = {key: named.get(value, value) if isinstance(value, str) else value for key, value in spec.build.items()}
    return timm.create_model(pretrained=False, **options).eval()


def random_model(spec: EncoderSpec) -> nn.Module:
    torch.manual_seed(0)
    model = timm_model(spec)
    for name, value in model.named_parameters():
        if "norm" not in name and "bn" not in name:
            nn.init.normal_(value, std=0.05)  # layer scale too: a block must matter
    return model


@pytest.mark.parametrize(
    ("name", "millions"),
    [("uni", 303.4), ("uni2-h", 681.4), ("virchow2", 631.2), ("gigapath", 1134.9), ("h-optimus-0", 1134.8)],
)
def test_the_whole_architecture_has_as_many_parameters_as_published(name: str, millions: float) -> None:
    pytest.importorskip("timm", reason=NO_TIMM)
    with torch.device("meta"):
        model = timm_model(ENCODERS[name])
    assert sum(value.numel() for value in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)


@pytest.mark.parametrize("name", SMALL)
def test_local_weights_go_into_the_architecture_that_the_card_states(
    name: str, shallow: Callable[[str], EncoderSpec], tmp_path: Path
) -> None:
    pytest.importorskip("timm", reason=NO_TIMM)
    from safetensors.torch import save_file

    spec = shallow(name)
    model = random_model(spec)
    whole = random_model(replace(spec, build={"model_name": "resnet50"})).state_dict() if name == "resnet50" else {}
    state = {**whole, **model.state_dict()}  # a checkpoint of ResNet-50 also has the layers above the features
    (tmp_path / "folder").mkdir()
    save_file(state, tmp_path / "folder" / "model.safetensors")
    torch.save(state, tmp_path / "pytorch_model.bin")
    given = TILES
    with torch.inference_mode():
        output = model(preprocess(given, spec))
    expected = {
        "virchow2": lambda: torch.cat([output[:, 0], output[:, 5:].mean(1)], 1),
        "resnet50": lambda: output[0].mean((2, 3)),
    }.get(name, lambda: output)()
    assert expected.shape == (2, spec.dim)
    for weights in (tmp_path / "folder", tmp_path / "pytorch_model.bin"):
        assert torch.equal(encode(load_encoder(name, weights=weights), given), expected)


def test_weights_of_another_model_are_refused(shallow: Callable[[str], EncoderSpec], tmp_path: Path) -> None:
    pytest.importorskip("timm", reason=NO_TIMM)
    shallow("virchow2")
    torch.save(random_model(shallow("uni")).state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"not the weights of virchow2 \(.*Expected paige-ai/Virchow2"):
        load_encoder("virchow2", weights=tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cut short")
    with pytest.raises(ConfigError, match="not the weights of uni"):
        load_encoder("uni", weights=tmp_path)
    with pytest.raises(ConfigError, match=r"expected a file, or a folder with model\.safetensors"):
        load_encoder("uni", weights=tmp_path / "nowhere")


def test_weights_that_lack_a_part_are_refused(shallow: Callable[[str], EncoderSpec], tmp_path: Path) -> None:
    pytest.importorskip("timm", reason=NO_TIMM)
    state = random_model(shallow("uni")).state_dict()
    torch.save({name: value for name, value in state.items() if "norm1" not in name}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="Missing key"):
        load_encoder("uni", weights=tmp_path)


def test_a_pickle_that_runs_code_is_not_opened(tmp_path: Path, shallow: Callable[[str], EncoderSpec]) -> None:
    pytest.importorskip("timm", reason=NO_TIMM)
    shallow("uni")

    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"norm.weight": Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="not the weights of uni"):
        load_encoder("uni", weights=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_local_folder_of_transformers_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 224, "patch_size": 16}
    model = transformers.Dinov2Model(transformers.Dinov2Config(**small)).eval()
    model.save_pretrained(tmp_path / "phikon")
    monkeypatch.setitem(ENCODERS, "phikon-v2", replace(ENCODERS["phikon-v2"], dim=32))
    encoder = load_encoder("phikon-v2", weights=tmp_path / "phikon")
    given = TILES
    with torch.inference_mode():
        expected = model(pixel_values=preprocess(given, encoder.spec)).last_hidden_state[:, 0]
    assert torch.allclose(encode(encoder, given), expected, atol=1e-6)
    with pytest.raises(ConfigError, match=r"expected a folder with config\.json"):
        load_encoder("phikon-v2", weights=tmp_path)


def test_a_folder_that_lacks_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    from safetensors.torch import load_file, save_file

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 224, "patch_size": 16}
    transformers.Dinov2Model(transformers.Dinov2Config(**small)).save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in state.items() if "layer.1" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setitem(ENCODERS, "phikon-v2", replace(ENCODERS["phikon-v2"], dim=32))
    with pytest.raises(ConfigError, match=r"not the weights of phikon-v2 \(without encoder\.layer\.1"):
        load_encoder("phikon-v2", weights=tmp_path)


def test_code_of_a_repository_runs_only_on_request() -> None:
    pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    with pytest.raises(ConfigError, match=r"hibou-l: loading it runs Python code .*--trust-code"):
        load_encoder("hibou-l")


def test_without_a_network_the_hub_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("timm", reason=NO_TIMM)
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def none(repo: str, name: str) -> str:
        raise LocalEntryNotFoundError("no network, not in the cache")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", none)
    with pytest.raises(
        ConfigError, match=r"uni: its weights cannot be downloaded \(no network.*Ask for access.*--weights"
    ):
        hub._from_hub(ENCODERS["uni"])
