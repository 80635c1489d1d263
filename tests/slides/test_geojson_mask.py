import json
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from jigsawmil.errors import SlideError
from jigsawmil.slides.geojson_mask import polygons, read_geojson, write_geojson
from jigsawmil.slides.tissue import Tissue

SQUARE = [[10, 10], [50, 10], [50, 50], [10, 50], [10, 10]]
HOLE = [[20, 20], [40, 20], [40, 30], [20, 30], [20, 20]]


def tissue(seed: int, sigma: float, scale: float = 15.97) -> Tissue:
    field = gaussian_filter(np.random.default_rng(seed).standard_normal((60, 83)), sigma)
    return Tissue(field > 0, scale)


def written(tmp_path: Path, node: object) -> Path:
    path = tmp_path / "own.geojson"
    path.write_text(node if isinstance(node, str) else json.dumps(node))
    return path


@pytest.mark.parametrize("sigma", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("origin", [(0, 0), (1234, 77)])
def test_a_mask_comes_back_pixel_by_pixel(tmp_path: Path, sigma: float, origin: tuple[int, int]) -> None:
    """Holes, pieces that touch at a corner or the edge, islands in holes: sigma 0 has them all."""
    one = tissue(0, sigma)
    write_geojson(one, tmp_path / "mask.geojson", origin)
    size = (int(83 * one.scale), int(60 * one.scale))
    assert np.array_equal(read_geojson(tmp_path / "mask.geojson", size, one.scale, origin).mask, one.mask)


def test_outlines_are_closed_and_hold_the_area_of_the_mask() -> None:
    one = tissue(1, 5.0)
    rings = [ring for piece in polygons(one) for ring in piece]
    assert all(np.array_equal(ring[0], ring[-1]) for ring in rings)
    area = sum(0.5 * np.sum(r[:-1, 0] * r[1:, 1] - r[1:, 0] * r[:-1, 1]) for r in rings)  # holes run the other way
    assert abs(area) == pytest.approx(one.mask.sum() * one.scale**2, rel=0.02)


def test_outlines_end_where_the_slide_does(tmp_path: Path) -> None:
    """The last pixels of a mask reach beyond a slide whose sides are no whole number of them."""
    size = (82 * 16 + 3, 59 * 16 + 12)
    whole = Tissue(np.ones((60, 83), bool), 16.0, size)
    write_geojson(whole, tmp_path / "mask.geojson")
    [ring] = (f["geometry"]["coordinates"][0] for f in json.loads((tmp_path / "mask.geojson").read_text())["features"])
    assert np.min(ring, axis=0).tolist() == [0, 0]
    assert np.max(ring, axis=0).tolist() == [*size]
    again = read_geojson(tmp_path / "mask.geojson", size, 16.0)
    assert again.size == size
    assert again.mask[:, :82].all()  # the centres of the last column lie beyond the slide


def test_qupath_finds_what_it_needs(tmp_path: Path) -> None:
    write_geojson(tissue(1, 5.0), tmp_path / "mask.geojson", (100, 50))
    node = json.loads((tmp_path / "mask.geojson").read_text())
    assert node["type"] == "FeatureCollection"
    for feature in node["features"]:
        assert feature["type"] == "Feature"
        assert feature["geometry"]["type"] == "Polygon"
        assert feature["properties"]["objectType"] == "annotation"
    least = np.min([ring for f in node["features"] for ring in f["geometry"]["coordinates"][0]], axis=0)
    assert least == pytest.approx((-100, -50), abs=17)  # this tissue begins at the slide's corner


@pytest.mark.parametrize(
    "node",
    [
        {"type": "Polygon", "coordinates": [SQUARE, HOLE]},
        {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [[SQUARE, HOLE]]}, "properties": {}},
        [{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [SQUARE[::-1], HOLE[:-1]]}}],
        {"type": "GeometryCollection", "geometries": [{"type": "Polygon", "coordinates": [SQUARE, HOLE]}]},
        {
            "type": "FeatureCollection",
            "features": [{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [SQUARE, HOLE]}}],
        },
    ],
)
def test_all_forms_of_one_square_with_a_hole(tmp_path: Path, node: object) -> None:
    expected = np.zeros((30, 40), bool)
    expected[5:25, 5:25] = True
    expected[10:15, 10:20] = False
    assert np.array_equal(read_geojson(written(tmp_path, node), (80, 60), 2.0).mask, expected)


def test_what_qupath_ignores_is_cut_out_wherever_it_stands(tmp_path: Path) -> None:
    def feature(ring: list, name: str) -> dict:
        properties = {"classification": {"name": name}}
        return {
            "type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": properties
        }  # fmt: skip

    nothing = {"type": "Feature", "geometry": None, "properties": None}  # legal, and no place
    empty = {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [[[]]]}}
    ignored = feature(HOLE, "Ignore*")
    expected = read_geojson(written(tmp_path, {"type": "Polygon", "coordinates": [SQUARE, HOLE]}), (80, 60), 2.0).mask
    for features in ([feature(SQUARE, "Tissue"), ignored, nothing], [ignored, empty, feature(SQUARE, "Region*")]):
        path = written(tmp_path, {"type": "FeatureCollection", "features": features})
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as some editors save it
        assert np.array_equal(read_geojson(path, (80, 60), 2.0).mask, expected)
    with pytest.raises(SlideError, match="holds no polygon"):
        read_geojson(written(tmp_path, ignored), (80, 60), 2.0)


def test_overlapping_outlines_add_up_and_parts_beyond_the_slide_are_cut(tmp_path: Path) -> None:
    other = [[x + 20, y - 30] for x, y in SQUARE]
    node = {"type": "MultiPolygon", "coordinates": [[SQUARE], [other]]}
    mask = read_geojson(written(tmp_path, node), (60, 60), 1.0).mask
    assert mask.sum() == 40 * 40 + 30 * 20 - 20 * 10
    assert mask[:20, 30:60].all()


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("{broken", "not GeoJSON"),
        ([1, 2], "not GeoJSON"),
        ({"type": "FeatureCollection", "features": []}, "no polygon"),
        ({"type": "LineString", "coordinates": SQUARE}, "'LineString', expected Polygon or MultiPolygon"),
        (
            {"type": "Polygon", "coordinates": [[[9000, 9000], [9100, 9000], [9100, 9100]]]},
            "covers a part of the slide",
        ),
        ({"type": "Polygon", "coordinates": [["a", "b"]]}, "not GeoJSON"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1e999, 0], [0, 9]]]}, "a corner at inf"),
        ({"type": "Polygon", "coordinates": [[[0, 0], ["NaN", 0], [0, 9]]]}, "a corner at nan"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1e300, 0], [0, 9]]]}, "a corner at 1e.300; expected level-0"),
        ({"type": "Polygon", "coordinates": []}, "no polygon"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, node: object, words: str) -> None:
    with pytest.raises(SlideError, match=words):
        read_geojson(written(tmp_path, node), (80, 60), 1.0)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlideError, match="does not exist"):
        read_geojson(tmp_path / "none.geojson", (80, 60), 1.0)
