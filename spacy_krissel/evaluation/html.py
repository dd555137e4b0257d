"""A report as one self-contained page: figures, and the errors beside the prototypes that won."""

from typing import Any, Dict, List, Sequence

from ..mentions.gold_ids import NIL
from ..util.escape import html_text
from .metrics import RECALL_AT, gold_rank
from .records import LinkRecord
from .tables import KINDS, Row, fact_rows, slice_rows, system_rows

# A page with more rows than this is slow to open and read by nobody to its end.
MAX_ERRORS = 2000

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1d2430; --soft: #5c6675; --paper: #ffffff; --panel: #f4f6f8; --line: #dde2e8; --accent: #14677d;
  --wrong: #a93226; --right: #1e7a46; --mark: #fff1c2 }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e4e8ee; --soft: #9aa5b4; --paper: #14181e; --panel: #1c222a; --line: #2e3641; --accent: #6cc5dc;
  --wrong: #f0958b; --right: #7fd3a2; --mark: #4d421a } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .75rem; }
code { font: 12.5px/1.5 ui-monospace, monospace; color: var(--soft); overflow-wrap: anywhere; }
.sub { color: var(--soft); margin: .25rem 0 1.5rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 0; }
.tiles div { background: var(--panel); border-radius: .5rem; padding: .75rem 1rem; }
.tiles dt { color: var(--soft); font-size: .8rem; } .tiles dd { margin: 0; font-size: 1.55rem; font-weight: 600; }
.tiles small { display: block; color: var(--soft); font-size: .75rem; font-weight: 400; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 1.5rem 0 0; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .75rem .35rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: .8rem; } th:first-child, td:first-child { text-align: left; }
.systems tr:nth-child(1) td { font-weight: 600; }
.bar { width: 32%; padding-right: 0; }
.bar i { display: block; height: .55rem; border-radius: .2rem; background: var(--accent); }
.filter { display: flex; gap: .75rem; flex-wrap: wrap; align-items: center; margin-bottom: .75rem; }
.filter input { flex: 1 1 16rem; }
.filter input, .filter select { font: inherit; color: inherit; background: var(--panel);
  border: 1px solid var(--line); border-radius: .4rem; padding: .4rem .6rem; }
.filter output { color: var(--soft); }
article { border-top: 1px solid var(--line); padding: .8rem 0; display: grid; gap: .2rem 1rem;
  grid-template-columns: 5.5rem 1fr; }
article[hidden] { display: none; }
article p { margin: 0; overflow-wrap: anywhere; }
article p:nth-child(odd) { color: var(--soft); font-size: .8rem; padding-top: .12rem; }
mark { background: var(--mark); color: inherit; border-radius: .2rem; padding: 0 .15em; }
.gold { color: var(--right); } .said { color: var(--wrong); } .id { color: var(--soft); font-size: .85em; }
.tag { border: 1px solid var(--line); border-radius: 1rem; padding: 0 .6em; font-size: .78rem; color: var(--soft); }
"""

_SCRIPT = """
const text = document.querySelector('#text'), why = document.querySelector('#why');
const rows = [...document.querySelectorAll('article')], shown = document.querySelector('#shown');
const words = rows.map(row => row.textContent.toLowerCase());
function filter() {
  const wanted = text.value.toLowerCase().trim();
  let n = 0;
  rows.forEach((row, i) => {
    row.hidden = !(words[i].includes(wanted) && (!why.value || row.dataset.why === why.value));
    n += !row.hidden;
  });
  shown.value = n + ' shown';
}
text.addEventListener('input', filter); why.addEventListener('change', filter); filter();
"""


def render_page(name: str, data: Dict[str, Any], errors: Sequence[LinkRecord], titles: Dict[str, str]) -> str:
    """The page. It loads nothing from anywhere, and everything that came from a corpus or an ontology is escaped.

    data: a report's figures. titles: canonical names by entity id.
    """
    systems = system_rows(data)
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html_text(name)}: entity linking</title><style>{_STYLE}</style></head><body>",
        f'<h1>{html_text(name)}</h1><p class="sub">Entity linking on {KINDS[data["mentions"]]}</p>',
        _tiles(systems),
        '<dl class="facts">',
        *(f"<dt>{html_text(title)}</dt><dd>{html_text(value)}</dd>" for title, value in fact_rows(data)),
        *([f"<dt>command</dt><dd><code>{html_text(data['command'])}</code></dd>"] if data["command"] else []),
        "</dl><h2>Systems</h2>",
        _table(systems, "systems"),
        "<h2>Slices</h2>",
        _table(slice_rows(data), "slices", bar=2),
        *_errors(errors, titles),
        "</body></html>\n",
    ]
    return "".join(parts)


def _tiles(systems: Sequence[Row]) -> str:
    figures = dict(zip(systems[0], systems[1], strict=True))
    shown = [("strict accuracy", figures["strict"], f"95 %: {figures['95 %']}"), ("lenient", figures["lenient"], "")]
    shown += [(f"recall at {k}", figures[f"R@{k}"], "") for k in RECALL_AT if k > 1]
    shown += [(key, figures[key], "strict, in this slice") for key in ("ambiguous", "homonym")]
    tiles = (
        f"<div><dt>{html_text(title)}</dt><dd>{html_text(value)}<small>{html_text(note)}</small></dd></div>"
        for title, value, note in shown
    )
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def _table(rows: Sequence[Row], kind: str, bar: int = 0) -> str:
    """An HTML table; with `bar`, the percentage in that column is drawn as well."""
    head = "".join(f"<th>{html_text(cell)}</th>" for cell in rows[0]) + ("<th></th>" if bar else "")
    body = []
    for row in rows[1:]:
        cells = "".join(f"<td>{html_text(cell)}</td>" for cell in row)
        if bar:
            width = row[bar] if row[bar].replace(".", "").isdecimal() else "0"
            cells += f'<td class="bar"><i style="width:{width}%"></i></td>'
        body.append(f"<tr>{cells}</tr>")
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _errors(errors: Sequence[LinkRecord], titles: Dict[str, str]) -> List[str]:
    total = f"{len(errors):,}"
    heading = f"<h2>Errors ({total})</h2>"
    if not errors:
        return [heading, "<p>None.</p>"]
    shown = errors[:MAX_ERRORS]
    if len(errors) > len(shown):
        heading += f'<p class="sub">The first {len(shown):,}; the file of link records has all.</p>'
    reasons = sorted({error_reason(record) for record in shown})
    options = "".join(f'<option value="{html_text(reason)}">{html_text(reason)}</option>' for reason in reasons)
    return [
        heading,
        '<div class="filter">',
        '<input id="text" type="search" placeholder="Filter by text, id or name" aria-label="Filter">',
        f'<select id="why" aria-label="Reason"><option value="">every reason</option>{options}</select>',
        '<output id="shown"></output></div>',
        *(_error(record, titles) for record in shown),
        f"<script>{_SCRIPT}</script>",
    ]


def error_reason(record: LinkRecord) -> str:
    """What went wrong, in words: the first that applies."""
    if not record.found:
        return "mention not found"
    if not record.prediction:
        return "no answer"
    if record.prediction == NIL:
        return "said NIL"
    if record.gold == (NIL,):
        return "should be NIL"
    if len(record.ties) > 1 and not set(record.ties).isdisjoint(record.gold):
        return "tied with the right one"
    rank = gold_rank(record)
    if rank is None:
        return "right one not among the candidates"
    return "right one in the top 5" if rank < 5 else "right one further down"


def _error(record: LinkRecord, titles: Dict[str, str]) -> str:
    reason = html_text(error_reason(record))
    said = record.ties if len(record.ties) > 1 and record.prediction != NIL else [record.prediction]
    answer = ", ".join(_entity(id_, titles) for id_ in said if id_) or "nothing"
    won = f" ({html_text(record.prototype_kind)})" if record.prototype_kind else ""
    evidence = html_text(record.prototype).replace("⟦", "<mark>").replace("⟧", "</mark>") or "none"
    return (
        f'<article data-why="{reason}"><p>{html_text(record.doc)}</p>'
        f"<p>{html_text(record.left)}<mark>{html_text(record.text)}</mark>{html_text(record.right)} "
        f'<span class="tag">{html_text(record.label)}</span> <span class="tag">{reason}</span></p>'
        f'<p>gold</p><p class="gold">{", ".join(_entity(id_, titles) for id_ in record.gold)}</p>'
        f'<p>linked to</p><p class="said">{answer}</p>'
        f"<p>by{won}</p><p>{evidence}</p></article>"
    )


def _entity(id_: str, titles: Dict[str, str]) -> str:
    title = titles.get(id_)
    return f'{html_text(title)} <span class="id">{html_text(id_)}</span>' if title else html_text(id_)
