"""Parts of the page that need no browser."""

from jigsawmil.viewer.widgets import Widths

BARCODE = "TCGA-3C-AALI-01Z-00-DX1."


def width(*names: str) -> int:
    return Widths.of(names, ["a"]).slide


def test_names_are_shown_as_far_as_tells_them_apart() -> None:
    """Of two files of one TCGA slide, that is beyond the barcode."""
    one = width(BARCODE + "F6E9A5DF-D8FB-45CF-B4BD-C6B76294C291", "TCGA-4H-AAAK-01Z-00-DX1")
    late = width(BARCODE + "F6E9A5DF-D8FB-45CF", BARCODE + "F6E9A5DF-0000-1111")
    letter = 7.4
    assert one >= letter * len(BARCODE)
    assert late >= letter * len(BARCODE + "F6E9A5DF-D8")
    assert width("a", "b") < one < late < width("x" * 500, "x" * 501) <= 400
