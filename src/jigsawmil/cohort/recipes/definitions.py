"""The recipes: which columns each needs, what its rules keep, and what label comes of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .rules import Rule

MSI_HIGH = 10.0  # MSIsensor, inclusive
ACRONYM = ("tcga_pancanatlas_cancer_type_acronym", "cancer_type_acronym")  # cBioPortal's site, and its data files
CANCER = (*ACRONYM, "oncotree_code")
HISTOLOGY = {  # OncoTree codes that lists of TCGA-BRCA hold beside IDC and ILC
    "MDLC": "mixed ductal and lobular",
    "IMMC": "mixed mucinous",
    "MBC": "metaplastic",
    "BRCA": "invasive, no more said",
    "BRCNOS": "not otherwise specified",
    "PD": "Paget",
    "ACBC": "adenoid cystic",
    "SPC": "solid papillary",
    "MPT": "malignant phyllodes",
}


@dataclass(frozen=True)
class Reported:
    """How many slides and patients a paper has at a stage of its cohort, and how many slides of each class."""

    stage: str
    slides: int
    patients: int
    classes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperCohort:
    """The cohort as a paper reports it: all slides, those with a label, those of patients with one slide.

    remark: what the paper leaves open, so that counts may differ.
    """

    source: str
    stages: tuple[Reported, Reported, Reported]
    remark: str


# The number of patients at the last stage follows from one slide per patient; the paper prints the slides.
BRCA_OF_THE_PAPER = PaperCohort(
    "arXiv 2603.20386, Appendix C",
    (
        Reported("all slides", 1133, 1062),
        Reported("ductal or lobular", 1009, 948, {"IDC": 805, "ILC": 204}),
        Reported("one per patient", 892, 892, {"IDC": 710, "ILC": 182}),
    ),
    "The paper states neither its list of slides nor the source of its labels, and calls all other slides mixed. Lists "
    "differ in their slides and histology codes, so the paper's 892 slides cannot be reproduced from its text.",
)


@dataclass(frozen=True)
class Recipe:
    """needed, optional: role -> names of its column, plain (lower case, underscores). rules and label see a column of
    text for each role.

    positive: the class to name as `--positive`; None for grades. several: what becomes of patients with more than one
    slide, `remove` or `keep`. parts: names of cancers that it joins.
    tcga: names are TCGA barcodes. doubts: slides that the literature doubts, and why.
    paper: the same cohort in the paper, to count beside ours.
    """

    title: str
    needed: Mapping[str, Sequence[str]]
    rules: tuple[Rule, ...]
    label: Callable[[pd.DataFrame], Sequence[str]]
    optional: Mapping[str, Sequence[str]] = field(default_factory=dict)
    positive: str | None = None
    several: str = "keep"
    parts: Sequence[str] = ()
    tcga: bool = True
    doubts: Mapping[str, str] = field(default_factory=dict)
    paper: PaperCohort | None = None


def among(name: str, role: str, values: Sequence[str], words: Mapping[str, str] | None = None) -> Rule:
    """Keep rows with one of the values; why the others go is their own value, with a word on what it means."""
    meaning = words or {}

    def other(rows: pd.DataFrame) -> list[str]:
        shown = {v: f"{v} ({meaning[v]})" if v in meaning else v or f"{role} missing" for v in rows[role].unique()}
        return ["" if v in values else shown[v] for v in rows[role]]

    return Rule(name, other, role, f"Expected {', '.join(values)} there. Is it the right table?")


def msi_scores(rows: pd.DataFrame) -> NDArray[np.float64]:
    return pd.to_numeric(rows["score"], errors="coerce").to_numpy(np.float64)


def no_score(rows: pd.DataFrame) -> list[str]:
    given = np.isfinite(msi_scores(rows))
    why = [f"not a number: {score}" if score else "score missing" for score in rows["score"]]
    return np.where(given, "", why).tolist()


def no_grade(rows: pd.DataFrame) -> list[str]:
    """Blanks elsewhere in the column make programs write 3 as 3.0."""
    return ["" if re.fullmatch(r"[0-5](\.0)?", v) else v or "grade missing" for v in rows["grade"]]


def no_class(rows: pd.DataFrame) -> list[str]:
    """CAMELYON16: why a slide has no class."""
    tests = rows["slide_id"].str.lower().str.startswith("test_")
    return [
        "" if v.lower() in ("normal", "tumor") else v or ("test slide, not in a reference" if test else "another name")
        for v, test in zip(rows["class_name"], tests, strict=True)
    ]


RECIPES: dict[str, Recipe] = {
    "tcga-brca": Recipe(
        title="TCGA-BRCA: ductal (IDC) or lobular (ILC) carcinoma",
        needed={"histology": ("oncotree_code",)},
        optional={"cancer": ACRONYM},
        rules=(
            among("cancer type BRCA", "cancer", ("BRCA",)),
            among("ductal (IDC) or lobular (ILC)", "histology", ("IDC", "ILC"), HISTOLOGY),
        ),
        label=lambda rows: rows["histology"].tolist(),
        positive="ILC",
        several="remove",
        paper=BRCA_OF_THE_PAPER,
    ),
    "tcga-coad": Recipe(
        title="TCGA-COAD: microsatellite instability (MSI), an MSIsensor score of at least 10, or not (MSS)",
        needed={"cancer": CANCER, "score": ("msisensor_score", "msi_sensor_score")},
        rules=(
            among("cancer type COAD", "cancer", ("COAD", "MACR")),  # MACR: OncoTree's mucinous ones
            Rule("MSIsensor score given", no_score, "score"),
        ),
        label=lambda rows: np.where(msi_scores(rows) >= MSI_HIGH, "MSI", "MSS").tolist(),
        positive="MSI",
    ),
    "tcga-hnsc": Recipe(
        title="TCGA-HNSC: HPV-positive (HPV+) or -negative (HPV-)",
        needed={"subtype": ("subtype",)},
        optional={"cancer": CANCER},
        rules=(
            among("cancer type HNSC", "cancer", ("HNSC",)),
            among("HPV status in the subtype", "subtype", ("HNSC_HPV+", "HNSC_HPV-")),
        ),
        label=lambda rows: [subtype.removeprefix("HNSC_") for subtype in rows["subtype"]],
        positive="HPV+",
    ),
    "tcga-nsclc": Recipe(
        title="TCGA lung: adenocarcinoma (LUAD) or squamous cell carcinoma (LUSC)",
        needed={"cancer": CANCER},
        rules=(among("cancer type LUAD or LUSC", "cancer", ("LUAD", "LUSC")),),
        label=lambda rows: rows["cancer"].tolist(),
        positive="LUSC",
        parts=("tcga-luad", "tcga-lusc", "tcga-lung"),
    ),
    "panda": Recipe(
        title="PANDA: ISUP grade 0 to 5 of prostate biopsies",
        needed={"grade": ("isup_grade", "label")},
        optional={"site": ("data_provider",)},
        rules=(Rule("ISUP grade 0 to 5", no_grade, "grade"),),
        label=lambda rows: rows["grade"].str.removesuffix(".0").tolist(),
        tcga=False,
    ),
    "camelyon16": Recipe(
        title="CAMELYON16: lymph nodes without (normal) or with (tumor) metastasis",
        needed={},
        rules=(Rule("normal or tumor", no_class, "class_name", "Test slides need reference.csv: --clinical."),),
        label=lambda rows: rows["class_name"].str.lower().tolist(),
        positive="tumor",
        tcga=False,
        doubts={
            "normal_086": "reported to hold tumour",
            "normal_144": "reported to hold tumour",
            "test_049": "reported as a duplicate",
        },
    ),
}
