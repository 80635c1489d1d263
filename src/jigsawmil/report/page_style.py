"""How the report looks, on a screen and on A4: one column, few colours, nothing fetched."""

CSS = """
:root { --ink: #1d1f21; --soft: #5b6066; --line: #d9dcdf; --wash: #f5f6f7; --accent: #0072b2; --warn: #a34700; }
* { box-sizing: border-box; }
html { font-size: 17px; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 3rem 1.5rem 5rem; max-width: 47rem; color: var(--ink); background: #fff;
  font-family: Charter, "Bitstream Charter", "Source Serif 4", Georgia, "Liberation Serif", serif; line-height: 1.55; }
h1, h2, h3, h4, th, td, figcaption, .note, .eyebrow, nav, dl, pre, .card {
  font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; }
h1 { font-size: 1.65rem; line-height: 1.28; font-weight: 600; letter-spacing: -0.01em; margin: 0.3rem 0 1.1rem; }
h2 { font-size: 1.22rem; margin: 3.2rem 0 0.8rem; padding-top: 0.7rem; border-top: 2px solid var(--ink); }
h3 { font-size: 0.98rem; margin: 2.2rem 0 0.5rem; }
h4 { font-size: 0.84rem; margin: 1.6rem 0 0.4rem; }
p { margin: 0.6rem 0; }
a { color: var(--accent); text-decoration: none; }
.eyebrow { color: var(--soft); font-size: 0.78rem; letter-spacing: 0.04em; margin: 0; overflow-wrap: anywhere; }
.note, figcaption { color: var(--soft); font-size: 0.78rem; line-height: 1.5; }
nav { font-size: 0.82rem; margin: 1.4rem 0; padding: 0.7rem 0; border: solid var(--line); border-width: 1px 0; }
nav a { margin-right: 1.1rem; white-space: nowrap; }
ul { padding-left: 1.2rem; margin: 0.6rem 0; }
li { margin: 0.25rem 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: 0.9rem 0 0.5rem; font-variant-numeric: tabular-nums; }
th, td { font-size: 0.74rem; line-height: 1.35; text-align: right; vertical-align: top;
  padding: 0.32rem 0 0.32rem 0.55rem; }
th { font-weight: 600; color: var(--soft); vertical-align: bottom; border-bottom: 1px solid var(--ink); }
td { border-bottom: 1px solid var(--line); white-space: nowrap; }
th.name, td.name { text-align: left; padding-left: 0; padding-right: 0.5rem; white-space: normal;
  overflow-wrap: anywhere; }
th.name:first-child { min-width: 8.5em; }
td.name:not(:first-child), th.name:not(:first-child) { padding-left: 0.55rem; }
.words td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.words th { text-align: left; }
.swatch { display: inline-block; width: 0.68em; height: 0.68em; margin-right: 0.45em; border-radius: 2px; }
figure { margin: 1.3rem 0 1.6rem; }
img { display: block; max-width: 100%; height: auto; }
figcaption { margin-top: 0.55rem; }
dl { margin: 0.8rem 0; font-size: 0.8rem; line-height: 1.5; }
dt { font-weight: 600; margin-top: 0.7rem; overflow-wrap: anywhere; }
dd { margin: 0.1rem 0 0; color: #33373b; }
pre { font-family: "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.7rem; line-height: 1.5;
  background: var(--wash); padding: 0.8rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.missing { border-left: 3px solid var(--warn); padding: 0.1rem 0 0.1rem 1rem; margin: 1.4rem 0; }
.missing h3 { margin: 0.4rem 0; color: var(--warn); }
.cards { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 1rem 0.9rem; margin: 0.8rem 0 0.4rem; }
.card { font-size: 0.7rem; line-height: 1.4; overflow-wrap: anywhere; }
.card figure { margin: 0 0 0.35rem; }
.card .blank { background: var(--wash); color: var(--soft); aspect-ratio: 4 / 3; padding: 0.6rem;
  margin-bottom: 0.35rem; }
.card b { display: block; }
.scale { display: flex; align-items: center; gap: 0.5rem; }
.scale i { flex: 0 0 7rem; height: 0.55rem;
  background: linear-gradient(90deg, #440154, #414487, #2a788e, #22a884, #7ad151, #fde725); }
@media (max-width: 40rem) { .cards { grid-template-columns: repeat(2, minmax(0, 1fr)); } .wide { overflow-x: auto; } }
@page { size: A4; margin: 16mm 17mm 18mm; }
@media print {
  html { font-size: 10.5pt; }
  body { max-width: none; padding: 0; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  nav { display: none; }
  h1, h2, h3, h4 { break-after: avoid; }
  h2 { margin-top: 2rem; }
  figure, tr, .card, .missing, dd { break-inside: avoid; }
  figure img { max-height: 230mm; }
  thead { display: table-header-group; }
  dt { break-after: avoid; }
  p { orphans: 3; widows: 3; }
  .cohort { break-before: page; }
  a { color: inherit; }
}
"""
