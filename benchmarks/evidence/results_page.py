"""docs/results.md from benchmarks/results/*.json: `python -m benchmarks.evidence.results_page`.

README's result on real H&E is written with it. Nothing on either is typed by hand. On the page one section per file:
what was asked, the command, commit, machine and time, and the figures with their intervals. A file that is missing
leaves a section that says how to make it.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import RESULTS, ROOT, named, placed, write
from .parts import BUDGET, PARTS
from .results_ensembles import develop, report
from .results_lung import lung
from .results_memorising import smoothing
from .results_pictures import draw
from .results_precision import precision
from .results_rivals import front, rivals
from .results_sections import Found, codex, ensemble_time, jigsaw, learning, loop, step, unseen
from .results_selection import choosing, selection
from .results_settings import presets, small
from .results_speed import out_of_core, scaling
from .results_standins import standins

PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
COMMAND = "python -m benchmarks.evidence.results_page"
HEAD = f"""# Results

This page has the measurements behind our claims, negative results included. `{COMMAND}` writes it
from the files in `benchmarks/results`. AUROCs are of slides that took no part in
fitting, stopping or any choice; [statistics](statistics.md) defines each interval. Phantoms are synthetic cohorts with
a known answer ([phantoms](phantoms.md)): they show what a method can detect, not how well it does on tissue. For a
summary by claim of the paper, see [what we measured](paper.md#what-we-measured).

`make evidence` runs the parts on accuracy one after the other, each only as far as it is missing, and begins none that
would end after {BUDGET // 60} hours: {", ".join(f"`{part.name}`" for part in PARTS)}.
All of them from nothing take about {sum(part.minutes for part in PARTS) / 60:.0f} hours on two idle cores, `standins`
alone {max(part.minutes for part in PARTS) / 60:.1f}; `python -m benchmarks.evidence --minutes 1000` begins them all.
`make bench` runs `step` and `scaling`. The other sections on speed name their commands.
"""


@dataclass(frozen=True)
class Section:
    """One file of results: its title, the command that makes it, and what it says.

    beside: another file, whose figures the text states too; it gets both.
    """

    file: str
    title: str
    command: str
    text: Callable[..., list[str]]
    beside: str = ""

    def said(self, results: Mapping[str, Found | None]) -> list[str]:
        names = [self.file, self.beside] if self.beside else [self.file]
        return self.text(*(results.get(name) for name in names))


def page(results: Mapping[str, Found | None]) -> str:
    parts = [HEAD, "\n".join(f"- [{section.title}](#{anchor(section.title)})" for section in SECTIONS) + "\n"]
    for section in SECTIONS:
        found = results.get(section.file)
        parts.append(f"## {section.title}\n")
        if found is None:
            parts.append(f"Not run yet: `{section.command}`\n")
            continue
        parts.append(made_by(found, section.command) + "\n")
        parts += [part + "\n" for part in section.said(results)]
    return "\n".join(parts).rstrip("\n")


def anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def made_by(found: Found, command: str) -> str:
    """The command, and all that a reader needs to place its figures."""
    machine = found.get("machine") or {}
    facts = [f"Made by `{command}`"]
    commits = found.get("commits") or [found.get("commit") or "unknown"]
    changed = " with changes not committed" if found.get("dirty") else ""
    facts.append(f"commit {' and '.join(map(named, commits))}{changed}")
    if machine.get("cpu"):
        facts.append(f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}")
    if found.get("date"):
        facts.append(found["date"][:10])
    if found.get("fit_seconds"):
        fits = f"{found['fits']} fits, " if "fits" in found else ""
        facts.append(f"{fits}{found['fit_seconds'] / 60:.0f} minutes of fitting")
    load = machine.get("load", 0)
    if load > 1:
        facts.append(f"the machine was busy (load {load:.1f})")
    return "; ".join(facts) + "."


SECTIONS = (
    Section("rivals", "Other people's models under the same folds", "python -m benchmarks.evidence.rivals", rivals),
    Section("unseen", "Two unseen phantom cohorts", "python -m benchmarks.evidence.unseen", unseen),
    Section("jigsaw_cases", "Where does the jigsaw help?", "python -m benchmarks.evidence.jigsaw_cases", jigsaw),
    Section(
        "learning_curve", "AUROC against the number of slides", "python -m benchmarks.evidence.learning_curve", learning
    ),
    Section("presets", "The presets `default` and `paper`", "python -m benchmarks.evidence.presets", presets),
    Section("small_cohorts", "Small cohorts", "python -m benchmarks.evidence.small_cohorts", small),
    Section(
        "smoothing",
        "What averaging over neighbours leaves",
        "python -m benchmarks.evidence.smoothing",
        smoothing,
    ),
    Section(
        "ensembles-develop",
        "Single models, ensembles and committees",
        "python -m benchmarks.evidence.ensembles --part develop",
        develop,
        beside="small_cohorts",
    ),
    Section(
        "ensembles-report",
        "The default on cohorts drawn afterwards",
        "python -m benchmarks.evidence.ensembles --part report",
        report,
        beside="small_cohorts",
    ),
    Section(
        "selection_bias",
        "Choosing the epoch on the test fold",
        "python -m benchmarks.evidence.selection_bias",
        selection,
    ),
    Section(
        "choosing", "Settings chosen inside the training patients", "python -m benchmarks.evidence.choosing", choosing
    ),
    Section("crc_codex", "Real tissue: colorectal cancer by CODEX", "python -m benchmarks.evidence.crc_codex", codex),
    Section("lung", "Real survival data: lung cancer", "python -m benchmarks.evidence.lung", lung),
    Section(
        "standins", "The paper's tables at full size, on stand-ins", "python -m benchmarks.evidence.standins", standins
    ),
    Section("precision", "Accuracy in bfloat16", "python -m benchmarks.evidence.precision", precision),
    Section("step", "Speed and memory of a step", "python -m benchmarks.speed.step", step),
    Section("loop", "The training loop beside the bare step", "python -m benchmarks.speed.loop", loop),
    Section("ensemble", "Training time of an ensemble", "python -m benchmarks.speed.ensemble", ensemble_time),
    Section("scaling", "A step by neighbours, members and threads", "python -m benchmarks.speed.scaling", scaling),
    Section(
        "out_of_core",
        "Cohorts larger than memory",
        "python -m benchmarks.speed.out_of_core --slides 400 --files 10000",
        out_of_core,
    ),
)


def read_results(folder: Path) -> dict[str, Found | None]:
    """What is there, by section; None where a file is missing."""
    paths = {section.file: folder / f"{section.file}.json" for section in SECTIONS}
    return {name: json.loads(path.read_text()) if path.is_file() else None for name, path in paths.items()}


def readme(text: str, results: Mapping[str, Found | None]) -> str:
    """README with its result on real H&E; as it is where that was not measured."""
    found = results.get("rivals")
    return placed(text, COMMAND.removeprefix("python -m "), front(found)) if found else text


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Write docs/results.md, its pictures, and README's result."
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--readme", type=Path, default=README)
    options = parser.parse_args(arguments)
    results = read_results(options.results)
    pictures = draw(results, options.out.parent / "img")
    write(options.out, page(results))
    write(options.readme, readme(options.readme.read_text(), results).rstrip("\n"))
    print(f"Written: {options.out} and {len(pictures)} pictures in {options.out.parent / 'img'}")


if __name__ == "__main__":
    main()
