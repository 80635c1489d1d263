"""Made-up studies: five methods, three folds, some patients with two slides."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

SKILL = {"abmil": 0.1, "abmil+jigsaw": 0.4, "graph-mil": 1.6, "graph-abmil": 2.3, "graph-abmil+jigsaw": 3.2}
CLASSES = ["mixed", "segregated"]
GRADES = ["low", "middle", "high"]


def _slides(seed: int) -> pd.DataFrame:
    patient = np.concatenate([np.arange(80), np.arange(0, 80, 4)])
    return pd.DataFrame(
        {
            "fold": np.random.default_rng([seed, 9]).permutation(80)[patient] % 3,
            "slide_id": [f"{i:04}" for i in range(len(patient))],
            "patient_id": [f"P{i:03}" for i in patient],
            "number": patient,
        }
    )


@pytest.fixture(scope="session")
def predictions() -> Callable[..., pd.DataFrame]:
    def make(skill: dict[str, float] = SKILL, seeds: int = 1, noise: int = 0) -> pd.DataFrame:
        """Binary predictions; `noise` seeds the scores and leaves slides, labels and folds alone."""
        rng, slides = np.random.default_rng(noise), _slides(0)
        positive = slides["number"].to_numpy() % 2
        parts = []
        for method, strength in skill.items():
            for seed in range(seeds):
                z = strength * (positive - 0.5) + rng.normal(size=len(slides))
                probability = np.round(1 / (1 + np.exp(-z)), 2)  # with ties
                columns = {"label": np.array(CLASSES)[positive], "probability": probability}
                parts.append(slides.drop(columns="number").assign(method=method, seed=seed, **columns))
        return pd.concat(parts, ignore_index=True)

    return make


@pytest.fixture(scope="session")
def graded() -> pd.DataFrame:
    """Predictions of three grades."""
    rng, slides = np.random.default_rng(1), _slides(0)
    grade = slides["number"].to_numpy() // 2 % 3
    parts = []
    for method, strength in SKILL.items():
        z = strength * np.eye(3)[grade] + rng.normal(size=(len(slides), 3))
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        columns = {f"probability_{name}": p[:, i] for i, name in enumerate(GRADES)}
        parts.append(
            slides.drop(columns="number").assign(method=method, seed=0, label=np.array(GRADES)[grade], **columns)
        )
    return pd.concat(parts, ignore_index=True)
