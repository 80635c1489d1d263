"""From tables and folders to labels: read, apply the rules of a recipe, join slides, give an account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from ...config import choose
from ...errors import ConfigError, LabelError
from ...tasks import sort_classes
from ..audit import describe_mismatch
from ..labels import listed, tcga_site
from .definitions import RECIPES, Recipe
from .rules import (
    ONE_SLIDE,
    SAMPLE_CODES,
    Account,
    Count,
    Rule,
    Step,
    barcode,
    count,
    named,
    of_kind,
    once,
    primary,
    single,
)
from .tables import list_folder, read_camelyon, read_clinical, read_institutions, read_slide_list

SEVERAL = ("remove", "keep")


@dataclass(frozen=True, eq=False)
class Labelled:
    """The label table that a recipe made, and what it dropped; made by `make_labels`.

    labels: slide_id, patient_id, label, site; where no slides were given patient_id, sample_id, label, site.
    dropped: slide_id, patient_id, rule, reason, of all that is not in the labels. site_column: readers have to be
    told of the column `site`, since barcodes do not say as much.
    """

    recipe: Recipe
    labels: pd.DataFrame
    dropped: pd.DataFrame
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    site_column: bool

    @property
    def has_slides(self) -> bool:
        return "slide_id" in self.labels

    @property
    def stages(self) -> tuple[Step, Step, Step | None]:
        """All slides, those with a label, and those of patients with one slide, if others were removed."""
        names = [step.rule for step in self.steps]
        end = names.index(ONE_SLIDE) if ONE_SLIDE in names else len(names)
        opened = [step for step in self.steps[:end] if step.opens][-1]
        return opened, self.steps[end - 1], self.steps[end] if end < len(names) else None

    @property
    def classes(self) -> dict[str, Count]:
        rows = self.labels if self.has_slides else self.labels.assign(slide_id="")
        return {name: count(rows[rows["label"] == name]) for name in sort_classes(rows["label"].unique())}


def make_labels(
    recipe: str,
    clinical: str | Path | None = None,
    *,
    slides: str | Path | None = None,
    features: str | Path | None = None,
    sites: str | Path | None = None,
    several: str | None = None,
    kind: str = "diagnostic",
    sheet: str | None = None,
) -> Labelled:
    """Apply a recipe to tables on disk.

    clinical: the table with the labels (CAMELYON16: reference.csv, needed for its test slides only). slides: a table
    of slides, where `clinical` is of patients. features: folder of feature files, or of slides: only those are kept.
    sites: TCGA's table of tissue source sites; `site` is then the institution, not its code. several: `remove`
    patients with more than one slide or `keep` all their slides; None = the recipe's own. kind: TCGA slides to take,
    `diagnostic`, `frozen` or `both`. sheet: of an XLSX.

    Example: `make_labels("tcga-coad", "clinical.xlsx", features="features/").labels`
    """
    if whole := next((name for name, known in RECIPES.items() if recipe in known.parts), None):
        raise ConfigError(f"recipe: found {recipe!r}, which is part of {whole} ({RECIPES[whole].title}). Give {whole}.")
    choose("recipe", recipe, RECIPES)
    chosen = RECIPES[recipe]
    chosen = replace(chosen, several=several or chosen.several)
    choose("--several", chosen.several, SEVERAL)
    choose("--kind", kind, SAMPLE_CODES)
    if not chosen.tcga and (sites is not None or kind != "diagnostic"):
        raise LabelError(f"--sites and --kind read TCGA barcodes, and {recipe} has none. Leave them out.")
    lists = [(Path(slides).name, read_slide_list(slides))] if slides is not None else []
    lists += [(f"{Path(features).resolve().name}/", list_folder(features))] if features is not None else []
    institutions = read_institutions(sites) if sites is not None else {}
    if recipe == "camelyon16":
        table = read_camelyon(clinical, [listing for _, listing in lists])
        return label_table(chosen, table, "CAMELYON16", lists)
    if clinical is None:
        wanted = "; ".join(" or ".join(names) for names in chosen.needed.values())
        raise LabelError(f"{recipe} needs a table with a column {wanted}; found none. Give it with --clinical.")
    table, notes = read_clinical(clinical, chosen.needed, chosen.optional, sheet)
    source = Path(clinical).name
    if slides is not None and (table["slide_id"] != "").any():
        raise LabelError(f"{source} already lists slides, and --slides gives another list. Leave out --slides.")
    return label_table(chosen, table, source, lists, kind, institutions, notes)


def label_table(
    recipe: Recipe,
    table: pd.DataFrame,
    source: str,
    lists: Sequence[tuple[str, pd.DataFrame]] = (),
    kind: str = "diagnostic",
    institutions: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Labelled:
    """A recipe on tables in memory, as `tables` reads them. lists: slides, with the name of their file or folder."""
    by_slide = bool((table["slide_id"] != "").any())
    key = "slide_id" if by_slide else "patient_id"
    rules = [rule for rule in recipe.rules if rule.role in table]  # a list of one cancer need not name the cancer
    account = Account.open(table, f"rows of {source}").apply(named(key), *rules)
    account = replace(account, rows=account.rows.assign(label=list(recipe.label(account.rows))))
    if recipe.tcga and not by_slide and (table["sample_id"] != "").any():
        account = account.apply(primary("sample_id"))
    account = account.apply(once(key, "label"))

    of_slides = [primary("slide_id"), of_kind(kind)] if recipe.tcga else []
    of_slides += [single()] if recipe.several == "remove" else []
    if by_slide:
        account = account.apply(*of_slides)
    for name, listing in lists:
        account = _join(account, listing, key, source, name)
        if key == "patient_id":
            account, key, source = account.apply(*of_slides), "slide_id", name

    rows = _with_sites(account.rows, institutions or {})
    if key == "slide_id":
        labels = rows[["slide_id", "patient_id", "label", "site"]]
    else:  # with the sample, readers give the label to slides of the primary tumour alone (docs/labels.md)
        labels = rows.assign(sample_id=rows["patient_id"] + "-01")[["patient_id", "sample_id", "label", "site"]]
    site_column = bool((rows["site"] != "").any()) and (not recipe.tcga or bool(institutions))
    notes_made = (*notes, *_notes(recipe, rows, key, institutions or {}))
    return Labelled(recipe, labels.reset_index(drop=True), account.dropped, account.steps, notes_made, site_column)


def _join(account: Account, listing: pd.DataFrame, key: str, source: str, name: str) -> Account:
    """Go on with the slides of a list or folder; what has a label but no slide there goes first."""
    there, labelled = set(listing[key]) - {""}, set(account.rows[key])
    if not there & labelled:
        mine, theirs = sorted(labelled), sorted(listing["slide_id"])
        hint = describe_mismatch(mine, theirs) if key == "slide_id" else ""
        raise LabelError(
            f"No slide of {name} is one that {source} labels. {hint}Found {len(theirs)} ({listed(theirs, 2)}); "
            f"expected names of {'slides' if key == 'slide_id' else 'patients'} such as {listed(mine, 2)}. "
            "Give the folder or the list of this cohort."
        )
    has_slide = Rule(f"has a slide in {name}", lambda rows: ["" if v in there else "no slide" for v in rows[key]])
    account = account.apply(has_slide)
    lost = account.lost(key)
    if key == "patient_id":
        rows = listing.merge(account.rows.drop(columns="slide_id"), on=key, how="left").fillna("")
    else:  # the table knows a slide's patient better than its name does
        rows = listing.rename(columns={"patient_id": "owner"}).merge(account.rows, on=key, how="left").fillna("")
        owner = rows["owner"].where(rows["owner"] != "", rows["slide_id"])
        rows["patient_id"] = rows["patient_id"].where(rows["patient_id"] != "", owner)

    def unlabelled(rows: pd.DataFrame) -> list[str]:
        return [
            "" if label else lost.get(value, f"not in {source}" if value else "no TCGA barcode")
            for label, value in zip(rows["label"], rows[key], strict=True)
        ]

    checks = named("slide_id"), once("slide_id", "patient_id"), Rule("has a label", unlabelled)
    return account.go_on_with(rows, f"slides in {name}").apply(*checks)


def _with_sites(rows: pd.DataFrame, institutions: Mapping[str, str]) -> pd.DataFrame:
    """A column of the table, or the tissue source site of TCGA barcodes: the institution where known, else its code."""
    if "site" in rows:
        return rows
    codes = [tcga_site(patient) for patient in rows["patient_id"]]
    return rows.assign(site=[institutions.get(code, code) for code in codes])


def _notes(recipe: Recipe, rows: pd.DataFrame, key: str, institutions: Mapping[str, str]) -> list[str]:
    notes = []
    if rows["label"].nunique() == 1:
        notes.append(f"The only label left is {rows['label'].iloc[0]!r}: a classifier needs two classes.")
    if not recipe.tcga:
        notes.append("No table says which slides belong to one patient: each slide counts as one patient.")
    elif key == "patient_id":
        notes.append(
            "This table lists patients. Later commands join it by barcode to all slides of primary tumours, including "
            "frozen sections. To choose and count slides here, give --features or --slides."
        )
    elif mute := [name for name in rows["slide_id"] if not barcode(name)[1]]:
        notes.append(
            f"{len(mute)} slides kept although their names do not say whether they are diagnostic or frozen: "
            f"{listed(mute, 3)}."
        )
    if doubted := [name for name in rows["slide_id"] if name.lower() in recipe.doubts]:
        why = ", ".join(f"{name} ({recipe.doubts[name.lower()]})" for name in doubted)
        notes.append(f"Kept, but questioned in the literature: {why}.")
    sites = rows[rows["site"] != ""].groupby("site")["label"]
    if len(sites) > 1 and rows["label"].nunique() > 1 and (sites.nunique() == 1).all():
        mend = " Give --sites: an institution has several codes." if recipe.tcga and not institutions else ""
        notes.append(f"Every one of the {len(sites)} sites holds one class only: the site reveals the label.{mend}")
    if institutions and (unknown := sorted(set(rows["site"]) - set(institutions.values()) - {""})):
        notes.append(f"Site codes that are not in the table of sites are kept as codes: {listed(unknown)}.")
    return notes
