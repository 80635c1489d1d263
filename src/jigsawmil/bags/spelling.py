"""When two names mean one thing: ids and labels that differ only in how they are written."""

import re
import unicodedata
from collections.abc import Callable, Iterable

TCGA_PATIENT = re.compile(r"TCGA-[0-9A-Z]{2}-[0-9A-Z]{4}(?![0-9A-Z])")  # 12 characters, [5:7] the site
_BARCODE = re.compile(r"tcga[\W_]([0-9a-z]{2})[\W_]([0-9a-z]{4})(?![0-9a-z])")  # in any case, with any separator
_DECIMAL = re.compile(r"(\d+)\.0+")


def tcga_patient(name: str) -> str:
    """The patient of a TCGA barcode, in upper case; "" for other names.

    Example: `tcga_patient("TCGA-A1-A0SB-01Z-00-DX1")  # "TCGA-A1-A0SB"`
    """
    found = TCGA_PATIENT.match(name.upper())
    return found[0] if found else ""


def plain_id(text: str, *, barcode: bool = True) -> str:
    """An id without case, width, Unicode form, invisible characters, separators, leading zeros and a trailing ".0".

    Letters and numbers stay apart, so that 1-11 and 11-1 are two ids. barcode: of a TCGA barcode the patient alone.

    Example: `plain_id("P_007") == plain_id("p 7")`
    """
    plain = _plain(text)
    if barcode and (found := _BARCODE.match(plain)):
        return f"tcga {found[1]} {found[2]}"
    if number := _DECIMAL.fullmatch(plain):
        plain = number[1]
    parts = re.findall(r"[^\W\d_]+|\d+", plain)
    return " ".join(part.lstrip("0") or "0" for part in parts) or plain


def plain_label(text: str) -> str:
    """A label without case, width, Unicode form and blanks; a number by its value."""
    plain = re.sub(r"[\s_]+", "", _plain(text))
    try:
        return repr(float(plain))
    except ValueError:
        return plain


def spellings(names: Iterable[str], plain: Callable[[str], str] = plain_id) -> list[tuple[str, ...]]:
    """Groups of different names that are one when they are made plain, sorted; empty names are none."""
    groups: dict[str, set[str]] = {}
    for name in set(names) - {""}:
        groups.setdefault(plain(name), set()).add(name)
    return sorted(tuple(sorted(group)) for group in groups.values() if len(group) > 1)


def _plain(text: str) -> str:
    """NFKC makes one of composed and decomposed letters, and of wide and narrow ones."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Cc")).strip()
