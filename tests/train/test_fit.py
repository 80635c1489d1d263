"""The loop: it learns, repeats bit for bit, stops when it should, and goes on where it was cut."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from jigsawmil.errors import ConfigError, NotANumberError, StudyError
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import Model
from jigsawmil.tasks.heads import MulticlassHead
from jigsawmil.train import fit as module
from jigsawmil.train.config import LambdaConfig, TrainConfig
from jigsawmil.train.devices import autocast, pick_device
from jigsawmil.train.feed import Feed
from jigsawmil.train.fit import evaluate, fit, one_pass
from jigsawmil.train.infer import Prepared, Seen, run_model
from jigsawmil.train.lambdas import Lambda
from jigsawmil.train.progress import Epoch, Progress
from jigsawmil.train.seeds import epoch_draws
from jigsawmil.train.training import Training

Small = Callable[..., Model]
TRAIN, VAL, TEST = range(12), range(12, 17), range(17, 24)
FIXED = LambdaConfig(policy=0.7)


def weights_of(model: Model) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def config(**options: Any) -> TrainConfig:
    return TrainConfig(**{"epochs": 4, "lr": 1e-3, "patience": 0, **options})


def figures(progress: Progress) -> list[dict[str, Any]]:
    """All that was recorded but the time it took; nan as a word, so that it equals itself."""
    kept = [{k: v for k, v in asdict(epoch).items() if k != "seconds"} for epoch in progress.epochs]
    return [{k: "nan" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in kept]


def predict(model: Model, feed: Feed, bags: Sequence[int], settings: TrainConfig) -> Iterator[Seen]:
    return run_model(model, feed.prepared(bags), device=settings.device, precision=settings.precision)


# --- learning


@pytest.mark.parametrize("method", ["abmil", "graph-mil", "graph-abmil+jigsaw"])
def test_a_planted_signal_is_learnt(feed: Feed, small: Small, method: str) -> None:
    model = small(method)
    progress = fit(model, feed, [*TRAIN, *VAL], [], config(epochs=8, lr=1e-2), seed=0)
    assert progress.epochs[-1].mil < progress.epochs[0].mil / 2
    assert evaluate(model, feed, TEST, config())[1] >= 0.9


def test_the_jigsaw_is_learnt_too_where_lambda_asks_for_it(feed: Feed, small: Small) -> None:
    falls = []
    for value in (0.0, 5.0):
        lam = LambdaConfig(policy=value)
        progress = fit(small(), feed, range(6), [], config(epochs=6, lr=1e-2, lambda_=lam), seed=0)
        falls.append(progress.epochs[0].jigsaw - progress.epochs[-1].jigsaw)
    assert falls[1] > falls[0] + 0.1


# --- randomness


def test_the_same_seed_gives_the_same_bits_and_another_one_others(feed: Feed, small: Small) -> None:
    def run(seed: int, disturb: int) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
        torch.manual_seed(disturb)  # the global generator is none of its business
        before = torch.get_rng_state()
        model = small(dropout=0.5)
        progress = fit(model, feed, TRAIN, VAL, config(batch_size=5), seed=seed)
        assert torch.equal(torch.get_rng_state(), before)
        return weights_of(model), figures(progress)

    one, again, other = run(7, 1), run(7, 2), run(8, 1)
    assert same(one[0], again[0])
    assert one[1] == again[1]
    assert not same(one[0], other[0])


def test_no_gpu_is_touched_but_the_one_at_hand(feed: Feed, small: Small, monkeypatch: Any) -> None:
    """To seed or read the generator of a GPU is to start CUDA on it, and to take its memory."""
    model, touched = small(), list[Any]()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device", lambda device: touched.append(device) or nullcontext())
    monkeypatch.setattr(torch.cuda, "get_rng_state", touched.append)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: touched.append(device))
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: touched.append("seed"))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: touched.append("all"))
    fit(model, feed, TRAIN, [], config(epochs=1, device="cpu"), seed=0)
    assert touched == []
    with epoch_draws(0, 1, torch.device("cuda:1")):
        assert touched == [torch.device("cuda:1"), torch.device("cuda:1"), "seed"]
    assert touched[3:] == [torch.device("cuda:1")]


def test_every_epoch_sees_every_bag_once_in_its_own_order(feed: Feed, small: Small, monkeypatch: Any) -> None:
    orders: list[list[int]] = []
    stream = feed.stream

    def recording(batches: Sequence[Sequence[int]], device: torch.device) -> Any:
        orders.append([bag for bags in batches for bag in bags])
        return stream(batches, device)

    monkeypatch.setattr(feed, "stream", recording)
    fit(small("abmil"), feed, TRAIN, [], config(epochs=3, batch_size=5), seed=0)
    assert [sorted(order) for order in orders] == [list(TRAIN)] * 3
    assert len({tuple(order) for order in orders}) == 3


# --- one step


class Recorder(torch.optim.SGD):
    """Keeps the gradient of every step and moves nothing."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.parameters(), lr=0.0)
        self.names = [name for name, _ in model.named_parameters()]
        self.gradients: list[dict[str, Tensor]] = []

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        params = self.param_groups[0]["params"]
        self.gradients.append({n: p.grad.clone() for n, p in zip(self.names, params, strict=True)})


def gradients(model: Model, feed: Feed, bags: Sequence[int], weights: Tensor | None = None, **options: Any) -> Any:
    training = Training(model, config(**{"clip": 1e9, "lambda_": FIXED, **options}), weights)
    training.optimiser, training.lam = Recorder(model), Lambda(training.config.lambda_)  # also without a jigsaw
    one_pass(training, feed, bags, torch.Generator().manual_seed(0))
    return training.optimiser.gradients


def test_the_gradient_of_a_batch_is_the_mean_of_its_bags(feed: Feed, small: Small) -> None:
    model, bags = small(share=1.0), [0, 3, 5, 8]
    weights = torch.tensor([0.5, 2.0])
    (batched,) = gradients(model, feed, bags, weights, batch_size=4)
    singles = gradients(model, feed, bags, weights, batch_size=1)
    assert len(singles) == 4
    for name, value in batched.items():
        torch.testing.assert_close(value, torch.stack([g[name] for g in singles]).mean(0), rtol=1e-4, atol=1e-6)


def test_the_loss_is_mil_plus_lambda_times_jigsaw(feed: Feed, small: Small) -> None:
    model, bag = small(share=1.0), [4]

    def gradient(value: float) -> dict[str, Tensor]:
        return gradients(model, feed, bag, lambda_=LambdaConfig(policy=value))[0]

    mil, one, three = gradient(0.0), gradient(1.0), gradient(3.0)
    assert any((one[name] - mil[name]).abs().max() > 1e-4 for name in mil)
    for name in mil:
        torch.testing.assert_close(three[name] - mil[name], 3 * (one[name] - mil[name]), rtol=1e-3, atol=1e-6)


def test_class_weights_are_inverse_frequencies_and_one_on_average(feed: Feed, small: Small) -> None:
    labels, head = torch.tensor([0, 0, 0, 1, 2, 2]), MulticlassHead(1, 3)
    weights = head.weigh_classes(labels, 3)
    torch.testing.assert_close(weights, torch.tensor([6 / 9, 6 / 3, 6 / 6]))
    assert weights[labels].mean() == pytest.approx(1.0)
    assert head.weigh_classes(torch.tensor([1, 1]), 2).isfinite().all()  # a class that has no bag

    bag = next(i for i in TRAIN if feed.labels[i] == 1)
    model, w = small("abmil"), torch.tensor([0.25, 3.0])
    (plain,), (weighted,) = gradients(model, feed, [bag]), gradients(model, feed, [bag], w)
    for name in plain:
        torch.testing.assert_close(weighted[name], 3 * plain[name])


def test_class_weights_come_from_the_training_bags_alone(feed: Feed, small: Small, monkeypatch: Any) -> None:
    seen, model = [], small("abmil")
    weigh = model.head.weigh_classes
    monkeypatch.setattr(model.head, "weigh_classes", lambda labels, n: seen.append(labels) or weigh(labels, n))
    fit(model, feed, TRAIN, VAL, config(epochs=1, class_weights=True), seed=0)
    assert torch.equal(seen[0], feed.labels[list(TRAIN)])


def test_the_gradient_is_clipped(feed: Feed, small: Small) -> None:
    model = small(share=1.0)
    (free,), (clipped,) = gradients(model, feed, [0]), gradients(model, feed, [0], clip=0.01)
    assert torch.cat([g.flatten() for g in free.values()]).norm() > 0.02
    assert torch.cat([g.flatten() for g in clipped.values()]).norm() == pytest.approx(0.01, rel=1e-3)
    (unlimited,) = gradients(model, feed, [0], clip=0.0)
    assert all(torch.equal(unlimited[name], free[name]) for name in free)


# --- stopping and choosing


def scripted(monkeypatch: Any, losses: Sequence[float]) -> None:
    script = iter(losses)
    monkeypatch.setattr(module, "evaluate", lambda *_: (next(script), 0.5))


def fit_and_record(model: Model, feed: Feed, validation: Sequence[int], **options: Any) -> tuple[Progress, list[Any]]:
    after: list[dict[str, Tensor]] = []

    def on_epoch(epoch: Epoch) -> None:
        after.append(weights_of(model))

    return fit(model, feed, TRAIN, validation, config(**options), seed=0, on_epoch=on_epoch), after


@pytest.mark.parametrize(
    ("losses", "best", "epochs"),
    [
        ([0.9, 0.8, 0.795, 0.796, 0.9, 0.1, 0.1], 2, 5),  # 0.795 is no gain: the margin is 0.01
        ([0.9, 0.893, 0.888, 0.9, 0.9, 0.9, 0.1], 3, 6),  # small gains add up
        ([0.9, 0.9, 0.9, 0.9, 0.1, 0.1, 0.1], 1, 4),
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], 7, 7),  # never three in vain: all epochs
        ([math.nan, 0.9, math.nan, math.nan, math.nan, 0.1, 0.1], 2, 5),
    ],
)
def test_patience_stops_and_the_best_epoch_is_kept(
    feed: Feed, small: Small, monkeypatch: Any, losses: list[float], best: int, epochs: int
) -> None:
    scripted(monkeypatch, losses)
    model = small("abmil")
    progress, after = fit_and_record(model, feed, VAL, epochs=7, patience=3, margin=0.01)
    assert (progress.best, len(progress.epochs)) == (best, epochs)
    assert same(weights_of(model), after[best - 1])
    assert best == epochs or not same(weights_of(model), after[-1])


def test_without_validation_all_epochs_run_and_the_last_weights_stay(feed: Feed, small: Small) -> None:
    model = small("abmil")
    progress, after = fit_and_record(model, feed, [], epochs=5)
    assert (progress.best, len(progress.epochs)) == (5, 5)
    assert same(weights_of(model), after[-1])
    assert all(math.isnan(epoch.val_loss) and math.isnan(epoch.val_auc) for epoch in progress.epochs)


def test_validation_bears_on_nothing_but_the_choice(feed: Feed, small: Small) -> None:
    """Whatever is watched, and also if nothing is, every epoch ends at the same weights."""
    runs = []
    for watched in ([], VAL, [17]):
        progress, after = fit_and_record(small(dropout=0.3), feed, watched, epochs=3, patience=3, margin=0.0)
        runs.append((after, [(epoch.mil, epoch.jigsaw, epoch.lambda_) for epoch in progress.epochs]))
    for after, losses in runs[1:]:
        assert losses == runs[0][1]
        assert all(same(one, other) for one, other in zip(after, runs[0][0], strict=True))


def test_the_validation_loss_is_that_of_the_weights_kept(feed: Feed, small: Small) -> None:
    model = small(dropout=0.4)
    progress = fit(model, feed, TRAIN, VAL, config(epochs=6, patience=3, lr=5e-3), seed=0)
    kept = progress.epochs[progress.best - 1]
    assert evaluate(model, feed, VAL, config()) == (kept.val_loss, kept.val_auc)


# --- evaluation


def test_dropout_is_on_in_training_and_off_in_every_evaluation(feed: Feed, small: Small) -> None:
    model = small("abmil", dropout=0.5)
    modes: list[bool] = []
    model.register_forward_hook(lambda *_: modes.append(model.training))
    fit(model, feed, TRAIN, VAL, config(epochs=3, patience=3), seed=0)
    assert modes == ([True] * len(TRAIN) + [False] * len(VAL)) * 3
    assert not model.training
    model.train()  # as a caller may have left it
    one, two = ([seen.probabilities for seen in predict(model, feed, TEST, config())] for _ in range(2))
    assert np.array_equal(one, two)


def test_patches_are_left_out_in_training_and_in_no_evaluation(feed: Feed, small: Small) -> None:
    model = small()
    sizes: list[int] = []
    model.register_forward_hook(lambda _, inputs, output: sizes.append(len(output.hidden)))
    fit(model, feed, [0], [1], config(epochs=2, patience=2, patch_dropout=0.5), seed=0)
    whole = [len(feed.batch([bag]).features) for bag in (0, 1)]
    assert sizes == [round(whole[0] / 2), whole[1]] * 2


def test_predicting_leaves_the_caller_free_to_train(feed: Feed, small: Small) -> None:
    model = small("abmil")
    for seen in predict(model, feed, [0, 1], config()):
        assert not torch.is_inference_mode_enabled()
        assert seen.probabilities.sum() == pytest.approx(1.0)
        assert torch.ones(1, requires_grad=True).exp().requires_grad


def test_log_loss_and_auc_by_hand(feed: Feed, small: Small) -> None:
    model = small("graph-abmil", seed=5)
    p = np.stack([seen.probabilities for seen in predict(model, feed, TEST, config())])
    labels = feed.labels[list(TEST)].numpy()
    loss, auc = evaluate(model, feed, TEST, config())
    assert loss == pytest.approx(-np.mean([math.log(row[label]) for row, label in zip(p, labels, strict=True)]))
    assert auc == roc_auc_score(labels, p[:, 1])


def test_attention_comes_back_in_the_order_of_the_file(cohort: Any, feed: Feed, small: Small) -> None:
    model = small("abmil", seed=2)
    attention = next(predict(model, feed, [3], config())).attention
    with torch.no_grad():  # the attention of ABMIL depends on the patch alone
        hidden = model.encoder(cohort.bag(3).features, None)
        score = model.pooling(hidden, ((0, len(hidden)),))[1]
    np.testing.assert_allclose(attention[0], score.numpy(), rtol=1e-4)
    assert attention[0].argmax() != 0


# --- precision and devices


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_learns_on_the_cpu_and_keeps_single_weights(feed: Feed, small: Small, precision: str) -> None:
    model = small()
    progress = fit(model, feed, TRAIN, [], config(epochs=5, lr=1e-2, precision=precision), seed=0)
    assert progress.epochs[-1].mil < 0.8 * progress.epochs[0].mil
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    with autocast(torch.device("cpu"), precision):
        assert model(feed.batch([0])).logits.dtype == getattr(torch, precision)


def test_probabilities_are_finer_than_half_precision(feed: Feed, small: Small) -> None:
    """Rounded to bfloat16, probabilities of different slides would be ties in the AUROC."""
    p = torch.tensor(
        np.stack([seen.probabilities for seen in predict(small(), feed, TRAIN, config(precision="bfloat16"))])
    )
    assert (p.to(torch.bfloat16).double() != p).any()


@pytest.mark.parametrize("name", ["gpu", "cuda:x", ""])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"device: found .*expected auto, cpu"):
        pick_device(name)


def test_a_device_that_is_not_there_is_refused(monkeypatch: Any) -> None:
    assert pick_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert pick_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ConfigError, match=r"'cuda:1', but torch sees 1 CUDA devices here. Use auto or cpu"):
        pick_device("cuda:1")


# --- divergence


@pytest.mark.parametrize("validation", [[], VAL])
def test_a_training_that_diverges_says_so(feed: Feed, small: Small, validation: Sequence[int]) -> None:
    told: list[Epoch] = []
    with pytest.raises(ConfigError, match=r"diverged in epoch \d: (the loss of \w+ is nan|weights contain).*Lower lr"):
        fit(small(), feed, TRAIN, validation, config(lr=1e30, patience=2), seed=0, on_epoch=told.append)
    assert len(told) <= 1  # at once, not after all epochs


def test_a_validation_loss_that_is_never_a_number_is_an_error(feed: Feed, small: Small, monkeypatch: Any) -> None:
    scripted(monkeypatch, [math.nan] * 9)
    with pytest.raises(ConfigError, match=r"diverged: the validation loss was never a number. Lower lr"):
        fit(small("abmil"), feed, TRAIN, VAL, config(epochs=9, patience=3), seed=0)


def test_the_slide_whose_validation_loss_is_no_number_is_named(feed: Feed, small: Small, monkeypatch: Any) -> None:
    name, real = feed.cohort.slides[VAL[1]].slide_id, module.run_model

    def run(model: Model, items: Iterable[Prepared], **options: Any) -> Iterator[Seen]:
        for item in items:
            if item.name == name:
                raise NotANumberError(name)
            yield from real(model, [item], **options)

    monkeypatch.setattr(module, "run_model", run)
    words = rf"the validation loss of {name} was never a number. Lower lr, and check the features of {name}\."
    with pytest.raises(ConfigError, match=words):
        fit(small("abmil"), feed, TRAIN, VAL, config(epochs=3, patience=3), seed=0)


@pytest.mark.parametrize("steps", [1, len(TRAIN)])
def test_the_step_that_spoilt_the_weights_is_named(feed: Feed, small: Small, monkeypatch: Any, steps: int) -> None:
    seen: list[str] = []
    real = Training.step

    def spoil(self: Training, batch: Batch, *given: Any) -> Any:
        result = real(self, batch, *given)
        if not seen:
            next(iter(self.model.parameters())).data.fill_(math.nan)
        seen.extend(batch.slide_ids)
        return result

    monkeypatch.setattr(Training, "step", spoil)
    size = len(TRAIN) // steps
    with pytest.raises(ConfigError, match=r"weights contain NaN or Inf after the step on (.*)\. Lower lr") as error:
        fit(small("abmil"), feed, TRAIN, VAL, config(batch_size=size), seed=0)
    assert f"after the step on {', '.join(seen[: min(size, 3)])}" in str(error.value)
    assert len(seen) == size  # the next step does not run


# --- going on


CASES = {  # options, and the bags watched
    "em": ({"lambda_": LambdaConfig(policy="em", every=2)}, [6, 7]),
    "em-per-slide": ({"lambda_": LambdaConfig(policy="em-per-slide", every=2)}, [6, 7]),
    "balanced": ({"lambda_": LambdaConfig(policy="balanced", every=3)}, []),
    "fixed": ({"lambda_": FIXED}, []),
    "float16": ({"precision": "float16"}, []),
}


@pytest.mark.parametrize(("options", "validation"), CASES.values(), ids=CASES)
def test_a_training_that_was_cut_goes_on_to_the_same_bits(
    feed: Feed, small: Small, tmp_path: Path, monkeypatch: Any, options: dict[str, Any], validation: Sequence[int]
) -> None:
    monkeypatch.setattr(module, "SAVE_SECONDS", -1.0)
    state = tmp_path / "state"
    settings = config(epochs=7, patience=5 if validation else 0, batch_size=2, lr=1e-2, margin=0.0, **options)

    def run(where: Path | None, cut: int | None = None) -> tuple[dict[str, Tensor], list[Any], int]:
        model = small(dropout=0.3)
        told: list[int] = []

        def on_epoch(epoch: Epoch) -> None:
            told.append(epoch.epoch)
            if epoch.epoch == cut:
                raise KeyboardInterrupt

        progress = fit(model, feed, range(6), validation, settings, seed=3, on_epoch=on_epoch, state=where)
        return weights_of(model), figures(progress), told[0] if told else 0

    whole = run(None)
    for cut in (1, 3, 6):  # cut three times; the first before anything was saved
        with pytest.raises(KeyboardInterrupt):
            run(state, cut)
    resumed = run(state)
    assert resumed[2] == 6  # epochs 1 to 5 were not done again
    assert resumed[1] == whole[1]
    assert same(resumed[0], whole[0])
    over = run(state)  # killed between the last epoch and the writing of results
    assert over[2] == 0
    assert same(over[0], whole[0])
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_the_best_epoch_before_the_cut_is_still_the_best_after(
    feed: Feed, small: Small, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "SAVE_SECONDS", -1.0)

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    model = small("abmil")
    scripted(monkeypatch, [0.5, 0.9, 0.9])
    with pytest.raises(KeyboardInterrupt):
        fit(model, feed, TRAIN, VAL, config(epochs=9, patience=3), seed=0, on_epoch=stop, state=tmp_path / "state")
    scripted(monkeypatch, [0.9, 0.9])
    progress = fit(model, feed, TRAIN, VAL, config(epochs=9, patience=3), seed=0, state=tmp_path / "state")
    assert (progress.best, len(progress.epochs)) == (1, 4)
    assert evaluate(model, feed, VAL, config()) == evaluate_after_one_epoch(feed, small)


def evaluate_after_one_epoch(feed: Feed, small: Small) -> tuple[float, float]:
    model = small("abmil")
    fit(model, feed, TRAIN, [], config(epochs=1), seed=0)
    return evaluate(model, feed, VAL, config())


def test_nothing_is_saved_before_its_time(feed: Feed, small: Small, tmp_path: Path) -> None:
    fit(small("abmil"), feed, TRAIN, [], config(), seed=0, state=tmp_path / "state")
    assert not list(tmp_path.iterdir())


def test_a_state_that_is_none_is_refused(feed: Feed, small: Small, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"no safetensors at all")
    with pytest.raises(StudyError, match=r"state: not a resumable training state .*Remove it"):
        fit(small("abmil"), feed, TRAIN, [], config(), seed=0, state=tmp_path / "state")


# --- impossible settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("epochs", 1.5), ("patience", -1), ("batch_size", 0), ("validation", 0.0), ("validation", 1.0),
        ("margin", -0.1), ("margin", math.nan), ("lr", 0.0), ("lr", math.nan), ("weight_decay", -1e-5), ("clip", -1.0),
        ("precision", "float61"),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name}: found {value!r}, expected"):
        TrainConfig(**{name: value})


def test_processes_of_a_team_draw_alike_but_for_dropout() -> None:
    def draws(*team: int) -> tuple[list[float], list[float]]:
        with epoch_draws(3, 1, torch.device("cpu"), *team) as generator:
            return torch.rand(4, generator=generator).tolist(), torch.rand(4).tolist()

    alone, first, second = draws(), draws(0), draws(1)
    assert alone == first
    assert second[0] == first[0]
    assert second[1] != first[1]
