"""The look of reports: two palettes and one style sheet. Pure.

The colors are distinguishable with red-green color blindness, and no meaning depends on color
alone. Text has a contrast of at least 4.5 to its background, marks of at least 3.
"""

import re
from collections.abc import Mapping

LIGHT = {
    "page": "#ffffff",
    "panel": "#f4f6f8",
    "ink": "#15202b",
    "quiet": "#52606d",
    "grid": "#e1e6eb",
    "work": "#2468a8",
    "start": "#6f96bf",
    "grace": "#b97700",
    "lost": "#c4420a",
    "save": "#00785a",
    "baseline": "#7b8794",
    "good": "#08734a",
    "bad": "#b4261e",
    "warn": "#855400",
    "good-tint": "#e7f5ee",
    "bad-tint": "#fdeceb",
    "warn-tint": "#fdf3e1",
    "chosen": "#e9f1fa",
    "s0": "#2468a8",
    "s1": "#c4420a",
    "s2": "#00785a",
    "s3": "#8a4a9c",
    "s4": "#52606d",
}

DARK = {
    "page": "#11161b",
    "panel": "#1a2128",
    "ink": "#e8ecf0",
    "quiet": "#a3afbb",
    "grid": "#2a333c",
    "work": "#62a5e6",
    "start": "#4a7199",
    "grace": "#eaa93a",
    "lost": "#ff8454",
    "save": "#3cc497",
    "baseline": "#818d99",
    "good": "#4fca93",
    "bad": "#ff8f85",
    "warn": "#eab34f",
    "good-tint": "#12291f",
    "bad-tint": "#331a19",
    "warn-tint": "#2e2412",
    "chosen": "#1a2b3c",
    "s0": "#62a5e6",
    "s1": "#ff8454",
    "s2": "#3cc497",
    "s3": "#d09ae2",
    "s4": "#a3afbb",
}

SERIES = 5
"""Series with styles of their own; more repeat them."""


def sheet() -> str:
    """The style sheet of pages."""
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
        f"{_PAGE}{_CHART}{_NARROW}"
    )


def chart_sheet() -> str:
    """The style sheet of a chart as a file, without variables."""
    rules = _CHART + _FILE
    return (
        f"{_literal(rules, LIGHT)}\n@media (prefers-color-scheme: dark) {{{_literal(rules, DARK)}}}"
    )


def _variables(palette: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in palette.items())


def _literal(rules: str, palette: Mapping[str, str]) -> str:
    return re.sub(r"var\(--([\w-]+)\)", lambda found: palette[found[1]], rules)


_PAGE = """
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  -webkit-text-size-adjust: 100% }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem }
h1 { font-size: 2rem; line-height: 1.2; margin: .2rem 0 .5rem; letter-spacing: -.01em }
h2 { font-size: 1.25rem; margin: 3rem 0 .25rem; letter-spacing: -.005em }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem }
p { margin: .4rem 0; max-width: 46rem; overflow-wrap: anywhere }
li, h3 { overflow-wrap: anywhere }
.over { color: var(--quiet); font-size: .875rem; margin: 0 }
.lead { font-size: 1.125rem }
.note { color: var(--quiet); font-size: .875rem }
.good { color: var(--good) } .bad { color: var(--bad) } .warn .mark, h1.warn { color: var(--warn) }
code, pre { font: .875em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace }
code { overflow-wrap: anywhere }
pre { background: var(--panel); padding: .75rem 1rem; border-radius: 6px; overflow-x: auto;
  margin: .5rem 0; max-height: 24rem }
.command { white-space: pre-wrap; overflow-wrap: anywhere }
bdi { overflow-wrap: anywhere }
summary { cursor: pointer; color: var(--work); padding: .5rem 0 }
:focus-visible { outline: 2px solid var(--work); outline-offset: 2px }

.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1px;
  margin: 1.5rem 0; border: 1px solid var(--grid); border-radius: 8px; overflow: hidden }
.figures div { box-shadow: 0 0 0 1px var(--grid); padding: .7rem .9rem }
.figures dt { color: var(--quiet); font-size: .8125rem }
.figures dd { margin: 0; font-size: 1.375rem; line-height: 1.3; font-variant-numeric: tabular-nums }
.figures small { display: block; color: var(--quiet); font-size: .8125rem }

.answers { list-style: none; margin: 1rem 0 0; padding: 0 }
.answers li { display: grid; grid-template-columns: 6.25rem 1fr; gap: 0 .75rem;
  padding: .6rem .75rem; border-top: 1px solid var(--grid) }
.answers li.no { background: var(--bad-tint); border-radius: 6px; border-top-color: transparent }
.answers li.warn { background: var(--warn-tint); border-radius: 6px;
  border-top-color: transparent }
.answers b { font-weight: 600 }
.answers p { margin: 0; overflow-wrap: anywhere }
.answers .mark { font-weight: 600; white-space: nowrap; font-size: .9375rem }
.answers .open .mark, .answers .open p { color: var(--quiet); font-weight: 400 }
.answers .code { color: var(--quiet); display: inline-block }

.chart { padding: 1.6rem .9rem 2.6rem 3.25rem; position: relative; margin-top: .5rem }
.chart.lanes { padding-left: 5rem }
.chart.bare { padding: .25rem 0 .5rem }
.chart > svg { display: block; width: 100% }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; padding: 0;
  margin: 0; font-size: .875rem; color: var(--quiet) }
.legend li { display: flex; align-items: center; gap: .4rem }
.legend svg { flex: none; overflow: visible }

.scroll { overflow-x: auto; margin: .5rem 0 }
table { border-collapse: collapse; width: 100%; font-size: .9375rem;
  font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--quiet); font-size: .875rem; padding-bottom: .4rem }
th, td { text-align: left; vertical-align: top; padding: .4rem .9rem .4rem 0;
  border-bottom: 1px solid var(--grid) }
thead th { color: var(--quiet); font-weight: 500; font-size: .8125rem; vertical-align: bottom }
tbody th { font-weight: 400 }
tbody th:not(.n) { min-width: 6rem }
.n { text-align: right; white-space: nowrap } .short { white-space: nowrap }
.n + :not(.n) { padding-left: .9rem }
.facts { display: grid; grid-template-columns: fit-content(14rem) minmax(0, 1fr);
  gap: .3rem 1.25rem; margin: .75rem 0 }
.facts dt { color: var(--quiet) } .facts dd { margin: 0 }
.facts > * { overflow-wrap: anywhere }

tbody tr.chosen { background: var(--chosen); box-shadow: inset 3px 0 var(--work) }
tbody tr.chosen th { font-weight: 600; padding-left: .6rem }

.evictions td:empty::before { content: "\u2013"; color: var(--quiet) }
"""

_CHART = """
.plot, .plot svg { overflow: visible }
.plot text { font-size: 12px; fill: var(--quiet); font-variant-numeric: tabular-nums }
.plot text.label { fill: var(--ink); paint-order: stroke; stroke: var(--page); stroke-width: 3.5px;
  stroke-linejoin: round }
.plot text.inside { fill: var(--page); stroke: none }
.plot text.label.baseline { fill: var(--quiet) } .plot text.label.work { fill: var(--work) }
.plot text.label.lost { fill: var(--lost) } .plot text.label.save { fill: var(--save) }
.grid { stroke: var(--grid); stroke-width: 1 }
.axis { stroke: var(--baseline); stroke-width: 1 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round;
  vector-effect: non-scaling-stroke }
.line.work { stroke: var(--work) } .line.baseline { stroke: var(--baseline); stroke-dasharray: 5 4 }
.line.band { stroke: var(--start); stroke-width: 7; opacity: .6 }
.line.lost { stroke: var(--lost); stroke-width: 4 }
.line.guess { stroke: var(--work); stroke-width: 1.5; stroke-dasharray: 2 4 }
.line.save { stroke: var(--save); stroke-linecap: butt }
.line.wait { stroke: var(--work); stroke-width: 1; opacity: .6 }
.line.goal { stroke: var(--baseline); stroke-width: 1.5; stroke-dasharray: 5 4 }
.bar.work { fill: var(--work) } .bar.start { fill: var(--start) } .bar.grace { fill: var(--grace) }
.bar.lost { fill: var(--lost) } .bar.baseline { fill: var(--baseline) }
.tick { stroke: var(--save); stroke-width: 2 }
.event { stroke: var(--lost); stroke-width: 1; opacity: .35 }
.sign { stroke: var(--page); stroke-width: 1.5; paint-order: stroke }
.sign.notice { fill: var(--grace) } .sign.no-notice { fill: var(--lost) }
.ring { fill: none; stroke: var(--ink); stroke-width: 1.5 }
.twin { fill: var(--ink); stroke: var(--page); stroke-width: 1; paint-order: stroke }
.area { fill-opacity: .75 }
.median { stroke: var(--ink); stroke-width: 1.5 }
.s0 { stroke: var(--s0) } .area.s0, .dot.s0 { fill: var(--s0); stroke: none }
.s1 { stroke: var(--s1) } .area.s1, .dot.s1 { fill: var(--s1); stroke: none }
.s2 { stroke: var(--s2) } .area.s2, .dot.s2 { fill: var(--s2); stroke: none }
.s3 { stroke: var(--s3) } .area.s3, .dot.s3 { fill: var(--s3); stroke: none }
.s4 { stroke: var(--s4) } .area.s4, .dot.s4 { fill: var(--s4); stroke: none }
.series { stroke-width: 2.5 } .series.s1 { stroke-dasharray: 9 4 }
.series.s2 { stroke-dasharray: 2 5 } .series.s3 { stroke-dasharray: 9 4 2 4 }
.series.s4 { stroke-dasharray: 5 3 }
"""

_NARROW = """
@media (max-width: 40rem) {
  main { padding: 1rem .9rem 3rem }
  h1 { font-size: 1.625rem }
  h2 { margin-top: 2.25rem }
  .wide { display: none }
  .answers li { grid-template-columns: 1fr; padding: .6rem .5rem }
  .figures { grid-template-columns: 1fr 1fr }
  .chart { padding-left: 2.5rem; padding-right: .5rem }
  .chart.lanes { padding-left: 4.25rem }
  table { font-size: .875rem }
  .evictions thead { position: absolute; clip-path: inset(50%) }
  .evictions tr { display: flex; flex-wrap: wrap; gap: 0 .9rem; padding: .5rem 0;
    border-bottom: 1px solid var(--grid) }
  .evictions th, .evictions td { padding: 0; border: 0 }
  .evictions th { min-width: 2.75rem; text-align: left; color: var(--quiet) }
  .evictions th::before { content: "#" }
  .evictions td:nth-child(2) { min-width: 4rem; text-align: left }
  .evictions td:nth-child(4) { padding: 0; flex: 1 1 9rem }
  .evictions td:nth-child(5)::before { content: "SIGTERM " }
  .evictions td:nth-child(6)::before { content: "exited after " }
  .evictions td:nth-child(7)::before { content: "exit " }
  .evictions td:nth-child(8)::before { content: "lost " }
  .evictions td:nth-child(3) { display: none }
  .evictions td::before { color: var(--quiet) }
  .evictions td:empty { display: none }
  th, td { padding-right: .65rem }
  .facts { grid-template-columns: 1fr; gap: 0 }
  .facts dd { margin-bottom: .6rem }
}
@media print { pre { max-height: none } details > * { display: block } }
"""

_FILE = """
.paper { fill: var(--page) }
.file text { font: 12px system-ui, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif;
  fill: var(--quiet) }
.file text.title { font-size: 15px; font-weight: 600; fill: var(--ink) }
"""
