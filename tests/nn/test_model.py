"""The five methods: what must change a prediction, what must not, and that batches are only a convenience."""

import dataclasses

import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.errors import ConfigError, FeatureError
from jigsawmil.graph import GraphConfig, knn_graph
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.convs import CONVS
from jigsawmil.nn.jigsaws import JIGSAWS
from jigsawmil.nn.model import METHODS, Output, build_model
from jigsawmil.nn.options import PAPER_METHODS

GRAPH = [name for name in PAPER_METHODS if METHODS[name].graph]
FLAT = [name for name in PAPER_METHODS if not METHODS[name].graph]


def make_bag(n: int, seed: int = 0, d: int = 12) -> Bag:
    g = torch.Generator().manual_seed(seed)
    side = int(n**0.5) + 2
    cells = torch.randperm(side * side, generator=g)[:n]
    coords = torch.stack([cells % side, cells // side], dim=1).double() * 512
    return Bag(slide_id=f"{seed:03d}", features=torch.randn(n, d, generator=g), coords=coords, patch_size=512)


def reorder(bag: Bag, order: torch.Tensor) -> Bag:
    return dataclasses.replace(bag, features=bag.features[order], coords=bag.coords[order])


def shuffle_content(bag: Bag, seed: int = 9) -> Bag:
    """The same patches at other places."""
    order = torch.randperm(len(bag), generator=torch.Generator().manual_seed(seed))
    return dataclasses.replace(bag, features=bag.features[order])


def model_of(method: str, **options):
    return build_model(method, 12, hidden=16, attention_dim=8, **options).eval()


@pytest.mark.parametrize("method", PAPER_METHODS)
@pytest.mark.parametrize("options", [*({"conv": conv} for conv in CONVS), {"kinds": 5}])
def test_batched_equals_one_by_one(method: str, options: dict) -> None:
    bags = [make_bag(n, seed) for seed, n in enumerate((80, 1, 30, 200))]
    model, config = model_of(method, **options), GraphConfig(k=12)
    together = model(Batch.of(bags, config))
    alone = [model(Batch.of(bag, config)) for bag in bags]
    for name in Output._fields:
        joined = getattr(together, name)
        if joined is None:
            assert alone[0].jigsaw_logits is None
            continue
        torch.testing.assert_close(joined, torch.cat([getattr(o, name) for o in alone]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kinds", [0, 5])
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_patch_order_in_the_file_changes_nothing(method: str, kinds: int) -> None:
    bag, model = make_bag(150), model_of(method, kinds=kinds)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(3))
    a, b = Batch.of(bag), Batch.of(reorder(bag, order))
    one, two = model(a), model(b)
    assert torch.equal(one.logits, two.logits)
    assert torch.equal(a.in_file_order(one.attention)[0][order], b.in_file_order(two.attention)[0])


@pytest.mark.parametrize("method", GRAPH)
def test_moving_contents_changes_graph_methods(method: str) -> None:
    """Section 5 of the paper: the score is not exchangeable. Its equations have tests in test_exchangeability.py."""
    bag, model = make_bag(150), model_of(method)
    gap = (model(Batch.of(bag)).logits - model(Batch.of(shuffle_content(bag))).logits).abs().item()
    assert gap > 1e-4


@pytest.mark.parametrize("method", FLAT)
def test_moving_contents_leaves_abmil_alone(method: str) -> None:
    """Section 5: standard MIL's score is exchangeable."""
    bag, model = make_bag(150), model_of(method)
    torch.testing.assert_close(model(Batch.of(bag)).logits, model(Batch.of(shuffle_content(bag))).logits)


@pytest.mark.parametrize("method", ["abmil+jigsaw", "graph-abmil+jigsaw"])
def test_the_jigsaw_head_sees_no_coordinates(method: str) -> None:
    """Mirrored and enlarged, every patch lies in another bin, but the graph is the same."""
    bag, model = make_bag(150), model_of(method)
    batch = Batch.of(bag)
    mirrored = dataclasses.replace(bag, coords=(bag.coords.max() - bag.coords) * 3)
    other = Batch.of(mirrored)
    assert not torch.equal(batch.in_file_order(batch.bins)[0], other.in_file_order(other.bins)[0])
    a = batch.in_file_order(model(batch).jigsaw_logits)[0]
    b = other.in_file_order(model(other).jigsaw_logits)[0]
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("jigsaw", JIGSAWS)
def test_same_seed_same_bits(jigsaw: str) -> None:
    def train() -> dict[str, torch.Tensor]:
        model = build_model("graph-abmil+jigsaw", 12, hidden=16, jigsaw=jigsaw, seed=4)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        generator, batch = torch.Generator().manual_seed(5), Batch.of([make_bag(60), make_bag(90, 1)])
        for _ in range(3):
            optimiser.zero_grad()
            output = model(batch)
            loss = model.head.loss(output.logits, torch.tensor([0, 1])).mean()
            (loss + model.jigsaw_loss(batch, output, generator).mean()).backward()
            optimiser.step()
        return model.state_dict()

    one, two = train(), train()
    assert all(torch.equal(one[key], two[key]) for key in one)
    other = build_model("graph-abmil+jigsaw", 12, hidden=16, jigsaw=jigsaw, seed=6).state_dict()
    assert not torch.equal(one["encoder.layers.0.project.weight"], other["encoder.layers.0.project.weight"])


def test_building_a_model_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    build_model("abmil", 4, seed=1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_patient_is_one_bag_without_edges_between_slides() -> None:
    bags, model = [make_bag(60), make_bag(40, 1)], model_of("graph-abmil")
    batch = Batch.of(bags)
    patient = batch.as_one_bag()
    assert len(patient) == 1
    apart, joined = model(batch), model(patient)
    assert torch.equal(apart.hidden, joined.hidden)
    assert joined.attention.sum().item() == pytest.approx(1)
    row = torch.repeat_interleave(torch.arange(100), batch.graph.indptr.diff())
    assert ((row < 60) == (batch.graph.indices < 60)).all()


def test_kinds_beside_each_other_are_what_the_head_sees_of_place() -> None:
    """With the pooled state silenced, the logit moves when contents move, and not with the number of slides."""
    bag, model = make_bag(150), model_of("graph-abmil", kinds=4)
    with torch.no_grad():
        model.head.linear.weight[:, :16] = 0
    here, moved = model(Batch.of(bag)), model(Batch.of(shuffle_content(bag)))
    assert (here.logits - moved.logits).abs().item() > 1e-3
    assert here.embedding.shape == (1, 16 + 4**2)
    twice = Batch.of([bag, dataclasses.replace(bag, slide_id="again")]).as_one_bag()
    torch.testing.assert_close(model(twice).logits, here.logits)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_kinds_are_off_by_default_and_add_to_graph_methods_only(method: str) -> None:
    plain, kinds = (model_of(method, kinds=k).state_dict() for k in (0, 3))
    assert model_of(method).state_dict().keys() == plain.keys()
    more = {"enrichment.kind"} if METHODS[method].graph else set()
    assert kinds.keys() - plain.keys() == more
    same = [key for key in plain if not key.startswith(("head.", "jigsaw."))]
    assert all(torch.equal(plain[key], kinds[key]) for key in same)


def test_heads_of_the_graph_attention_share_the_width() -> None:
    batch = Batch.of(make_bag(50))
    one, four = model_of("graph-abmil"), model_of("graph-abmil", heads=4)
    assert one(batch).hidden.shape == four(batch).hidden.shape == (50, 16)
    rows = [alpha.shape for alpha in four.encoder.edge_attention(batch)]
    assert rows == [(4, batch.graph.edges)] * 2


def test_abmil_needs_no_graph_and_graph_methods_say_so() -> None:
    batch = Batch.of(make_bag(20), graph=None)
    assert model_of("abmil")(batch).logits.isfinite().all()
    with pytest.raises(ConfigError, match="without graphs"):
        model_of("graph-mil")(batch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "graph-abmil+jigsw"}, "Did you mean 'graph-abmil\\+jigsaw'"),
        ({"conv": "gta"}, "gat, gcn, gin, sage"),
        ({"hiden": 3}, "Did you mean 'hidden'"),
        ({"heads": 3}, "divisor"),
        ({"task": "binary", "classes": 3}, "classes"),
        ({"dropout": 1.0}, "dropout"),
        ({"kinds": -1}, "kinds"),
    ],
)
def test_impossible_settings_name_the_key(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_model(**{"method": "abmil", "in_dim": 4, **options})


def test_mixed_dimensions_and_empty_slides_are_refused() -> None:
    with pytest.raises(FeatureError, match="several dimensions"):
        Batch.of([make_bag(5), make_bag(5, 1, d=7)])
    with pytest.raises(FeatureError, match="no patches"):
        Batch.of(dataclasses.replace(make_bag(5), features=torch.zeros(0, 3), coords=torch.zeros(0, 2)))


def test_features_of_another_dimension_and_short_words_for_bags_and_graphs() -> None:
    bag = Bag(slide_id="a", features=torch.rand(30, 8), coords=512 * torch.rand(30, 2).double(), patch_size=512.0)
    with pytest.raises(FeatureError, match="features have 8 columns, the model was built for 99"):
        build_model("abmil", in_dim=99)(Batch.of([bag]))
    assert repr(bag) == "Bag('a': 30 patches x 8, patches of 512 px, from memory)"
    assert repr(knn_graph(bag.coords, k=4)).startswith("SpatialGraph(30 patches, ")
