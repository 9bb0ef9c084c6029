"""Look at one real page of every kind in a browser: ``python tools/look.py OUT [KIND ...]`` (or ``make look``).

Each page is drawn from findings of a command of ``tests/frozen/make.py`` or of a small audit made here, and opened in
the Chromium of the system at 1,280 and at 390 pixels. OUT gets ``KIND-1280.png``, ``KIND-390.png`` and
``KIND-print.png``; a table says what axe-core finds, what is wider than its place, where the keyboard does not reach,
and what is missing without scripts and in print. The exit code is 1 where there is any of it. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import miaudit as ma
from miaudit.bundle import read as read_bundle
from miaudit.collect.extraction import audit_extraction
from miaudit.findings.about import About
from miaudit.findings.kind import FindingsRecord
from miaudit.findings.kinds import from_dict
from miaudit.findings.policy import label_of
from miaudit.report import dossier, index_page, kinds, public_page

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
from frozen import inputs, make  # noqa: E402
from worlds import leaking_kinds  # noqa: E402

WIDE, PHONE, PAPER = 1280, 390, 720
SIZES = (WIDE, PHONE)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


# -- a page of every kind ----------------------------------------------------------------------------------------------


def _sample(name: str) -> Callable[[], FindingsRecord]:
    def made() -> FindingsRecord:
        return from_dict(json.loads(make.sample(name)))

    return made


def _clear() -> FindingsRecord:
    rng = np.random.default_rng(0)
    held = ma.Evidence(score=rng.normal(size=4000), member=np.arange(4000) % 2 == 0, design="one-run")
    return ma.audit(held, plan=ma.Plan(fpr_targets=(0.01, 0.1), primary_metric="tpr_at_fpr_0.1", bounds=None), rng=0)


def _several_runs() -> FindingsRecord:
    rng = np.random.default_rng(0)
    coins = rng.random((3, 600)) < 0.5
    runs = [ma.Evidence(score=rng.normal(2.0 * coin), member=coin, design="one-run") for coin in coins]
    return ma.audit(ma.Evidence.of_runs(runs), rng=0)


def _long_names() -> FindingsRecord:
    rng, name = np.random.default_rng(0), "a_score_whose_name_nobody_ever_meant_to_be_read_by_a_human_being_" * 3
    member = np.arange(600) % 2 == 0
    groups = np.array(["region: north-east, rural, without a hospital within fifty kilometres", "Wörter" * 20, "x"])
    held = ma.Evidence(
        score={name: rng.normal(0.6 * member), "loss": rng.normal(0.3 * member)},
        member=member,
        design="one-run",
        group=groups[np.arange(600) % 3],
    )
    return dataclasses.replace(ma.audit(held, rng=0), notes=("https://example.org/" + "path/" * 60,))


def _coins() -> FindingsRecord:
    return read_bundle(make.FILES / "coins" / "two-runs.zip").findings


def _matched() -> FindingsRecord:
    rng = np.random.default_rng(0)
    decoys = rng.normal(size=(600, 20))
    true = rng.normal(size=600) + 2.0 * (rng.random(600) < 0.3)
    texts = np.array([[rng.bytes(8).hex() for _ in range(21)] for _ in range(600)], dtype=object)
    return ma.audit(ma.Evidence.matched(true=true, decoys=decoys, text=texts), rng=0)


def _kinds() -> FindingsRecord:
    evidence = leaking_kinds.world("step", 3000, np.random.default_rng(1)).evidence
    return ma.audit(evidence, plan=ma.Plan(fpr_targets=(0.1,), by_covariates=True, bounds=None), rng=0)


def _history_budget() -> FindingsRecord:
    """Three releases of a model, of which the last one leaks."""
    with tempfile.TemporaryDirectory() as folder:
        for month, gap in ((1, 0.0), (2, 0.1), (3, 1.0)):
            rng = np.random.default_rng(month)
            member = rng.random(1500) < 0.5
            held = ma.Evidence(score=rng.normal(gap * member), member=member, design="one-run")
            audit = ma.audit(held, plan=ma.Plan(limits={"auc": 0.6}, bounds=None), rng=0)
            dated = dataclasses.replace(audit, about=About(model="triage", date=f"2026-0{month}-01"))
            (Path(folder) / f"v{month}.json").write_text(dated.to_json(), encoding="utf-8")
        return ma.history(folder, budget=0.05, memberships="fresh")


def _extraction() -> FindingsRecord:
    from miaudit.auditing.extraction import ExtractionPlan

    plan = ExtractionPlan(prefix=2, suffix=3, queries=100)
    with tempfile.TemporaryDirectory() as folder:
        inputs.write(Path(folder))
        return audit_extraction(Path(folder) / "tokens.jsonl", plan, design="one-run", names=True)


KINDS: dict[str, Callable[[], FindingsRecord]] = {
    "audit-flagged": _sample("one-run"),
    "audit-clear": _clear,
    "audit-inconclusive": _sample("pair"),
    "audit-undeclared": _sample("undeclared"),
    "audit-claim": _sample("mechanism"),
    "audit-scores": _sample("logits"),
    "audit-groups": _sample("groups"),
    "audit-bootstrap": _sample("bootstrap"),
    "audit-vulnerability": _sample("run-tree"),
    "audit-sealed-coins": _coins,
    "audit-several-runs": _several_runs,
    "audit-long-names": _long_names,
    "audit-matched": _matched,
    "audit-kinds": _kinds,
    "zero-run-answered": _sample("zero-run-stack"),
    "zero-run-claim": _sample("zero-run"),
    "zero-run-refused": _sample("refused"),
    "zero-run-raw-only": _sample("raw-only"),
    "table": _sample("table"),
    "synthesis": _sample("synthesis"),
    "synthesis-private": _sample("synthesis-private"),
    "disclosure": _sample("disclosure"),
    "extraction": _extraction,
    "usage": _sample("usage"),
    "deletion": _sample("deletion"),
    "comparison": _sample("comparison"),
    "history": _sample("history"),
    "history-budget": _history_budget,
    "verification": _sample("verification"),
    "verification-failed": _sample("verification-failed"),
    "challenge": _sample("challenge-propensity"),
}
INDEX, DOSSIER, PUBLIC = "index", "dossier", "public"
_IN_DOSSIER = ("audit-flagged", "audit-claim", "zero-run-refused", "table", "extraction", "disclosure")


def draw(name: str, out: Path) -> tuple[Path, list[str]]:
    """Write the page of a kind into a folder; return it and what has to be readable on it."""
    page = out / f"{name}.html"
    if name == INDEX:
        results = out / "audits"
        for one in ("audit-flagged", "audit-clear", "audit-claim", "zero-run-refused", "table", "comparison"):
            (results / one).mkdir(parents=True, exist_ok=True)
            (results / one / kinds.FINDINGS).write_text(KINDS[one]().to_json(), encoding="utf-8")
        listed = index_page.listed(results)
        page.write_text(index_page.page(listed), encoding="utf-8")
        return page, ["5 audits"]
    if name == DOSSIER:
        results = out / "of one model"
        for one in _IN_DOSSIER:
            (results / one).mkdir(parents=True, exist_ok=True)
            (results / one / kinds.FINDINGS).write_text(KINDS[one]().to_json(), encoding="utf-8")
        page.write_text(dossier.collected(results, {}).page(), encoding="utf-8")
        return page, ["Not tested."]
    if name == PUBLIC:
        released: Any = KINDS["synthesis-private"]()
        page.write_text(public_page.page(released), encoding="utf-8")
        return page, ["What this means for one person"]
    found = KINDS[name]()
    page.write_text(kinds.page(found), encoding="utf-8")
    verdict: Any = getattr(found, "verdict", None)
    limits = getattr(verdict, "limits", ())
    if limits:  # in a table, limit by limit
        return page, sorted({label_of(one.limit) for one in limits})
    said: Any = getattr(found, "text", "") or getattr(verdict, "text", "")
    said = " ".join((said if isinstance(said, str) else said[0]).split())
    return page, [said.rpartition(": ")[2] or said]  # its word stands above it


# -- what is looked at -------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What is wrong with a page, by check; each an empty list where nothing is."""

    kind: str
    width: int
    axe: list[str] = field(default_factory=list)
    minor: list[str] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)
    keyboard: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    paper: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    column: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, list[str]]:
        """What must not be: everything but what axe-core calls minor or moderate."""
        checks = {name: value for name, value in vars(self).items() if name not in ("kind", "width", "minor")}
        return {name: value for name, value in checks.items() if value}


def missing() -> str:
    """Say what this machine lacks to look at pages; nothing where it can."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    if importlib.util.find_spec("axe_playwright_python") is None:
        return "axe-playwright-python, which holds axe-core, is not installed"
    return "" if _browser() else f"no Chromium on this machine ({', '.join(BROWSERS)})"


def _browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextmanager
def opened() -> Iterator[Any]:
    """A browser that asks nothing of a network."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_browser(), args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def look(browser: Any, kind: str, out: Path, widths: Sequence[int] = SIZES) -> list[Seen]:
    """Draw a kind, open it at each width, and say what is wrong; screenshots go beside the page."""
    page, said = draw(kind, out)
    return [_look(browser, kind, page, said, width) for width in widths]


def _look(browser: Any, kind: str, page: Path, said: list[str], width: int) -> Seen:
    seen = Seen(kind, width)
    context = browser.new_context(viewport={"width": width, "height": 900}, bypass_csp=True)
    tab = context.new_page()
    tab.on("console", lambda message: seen.console.append(message.text))
    tab.on("pageerror", lambda error: seen.console.append(str(error)))
    tab.goto(page.as_uri())
    tab.wait_for_function(
        "document.querySelectorAll('.live:not([hidden])').length === 0 || "
        "document.querySelectorAll('.drawn').length === document.querySelectorAll('[data-chart]').length"
    )
    tab.screenshot(path=page.with_name(f"{kind}-{width}.png"), full_page=True)
    seen.wide = tab.evaluate(_WIDE)
    for check, program in _LAID_OUT.items():
        setattr(seen, check, tab.evaluate(program))
    seen.keyboard = _tabbed(tab)
    _axe(tab, seen)
    if width == WIDE:
        tab.set_viewport_size({"width": PAPER, "height": 1000})
        tab.evaluate("document.activeElement.blur()")
        tab.emulate_media(media="print")
        tab.screenshot(path=page.with_name(f"{kind}-print.png"), full_page=True)
        seen.paper = tab.evaluate(_PAPER)
        tab.pdf(path=page.with_name(f"{kind}.pdf"), format="A4")
    context.close()
    bare = browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=False)
    tab = bare.new_page()
    tab.goto(page.as_uri())
    seen.bare = tab.evaluate(_BARE, said)
    bare.close()
    return seen


def _axe(tab: Any, seen: Seen) -> None:
    """Run axe-core in the page and sort what it finds by whether it counts."""
    import axe_playwright_python

    tab.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    for found in tab.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations"):
        places = [node["target"][0] for node in found["nodes"]]
        line = f"{found['impact']} {found['id']} ({len(places)}): {places[0]}"
        (seen.axe if found["impact"] in ("serious", "critical") else seen.minor).append(line)


def _tabbed(tab: Any) -> list[str]:
    """Press Tab through the page: everything that can be used is reached, in its order, and shows it."""
    names = tab.evaluate(_STOPS)
    faults = []
    for i, name in enumerate(names):
        tab.keyboard.press("Tab")
        at, shown = tab.evaluate(_FOCUS)
        if at != i:
            return [*faults, f"Tab reaches {at} instead of {i}, {name}"]
        if not shown:
            faults.append(f"no visible focus on {name}")
    return faults


_NAMED = """function named(e) {
  var text = e.getAttribute('aria-label') || e.textContent;
  return e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + ' ' + text.trim().slice(0, 40); }
function shown(e) { return e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length > 0; }
"""
_WIDE = (
    "() => {"
    + _NAMED
    + """
  var faults = [], page = document.documentElement;
  if (page.scrollWidth > innerWidth) faults.push('page of ' + page.scrollWidth + ' px');
  document.querySelectorAll('main *, header *').forEach(function (e) {
    if (!shown(e) || e.closest('svg')) return;
    var box = e.getBoundingClientRect(), inside = e.closest('.scroll, pre');
    if (!inside && box.right > innerWidth + 1) faults.push('off the page: ' + named(e));
    if (e.matches('.scroll') && e.scrollWidth > e.clientWidth + 1)
      faults.push('table of ' + e.scrollWidth + ' in ' + e.clientWidth + ' px: ' + named(e));
  });
  return faults; }"""
)
_COLUMN = (
    "() => {"
    + _NAMED
    + """
  if (innerWidth < 1000) return [];
  var main = document.querySelector('main'), style = getComputedStyle(main), box = main.getBoundingClientRect();
  var left = box.left + parseFloat(style.paddingLeft), right = box.right - parseFloat(style.paddingRight);
  var faults = [];
  var blocks = 'main p, main ul, main ol, main pre, main .scroll, main .chart, main .cards';
  document.querySelectorAll(blocks).forEach(function (e) {
    if (!shown(e) || e.closest('.verdict, .finding, .split, .pair, .control, li, details, .badge')) return;
    var at = e.getBoundingClientRect();
    if (Math.abs(at.left - left) > 4 || Math.abs(at.right - right) > 4)
      faults.push([at.left, at.right].map(Math.round) + ', not ' + [left, right] + ': ' + named(e)); });
  return faults; }"""
)
_NUMBERS = (
    "() => {"
    + _NAMED
    + r"""
  var one = '[+\\-−]?[0-9][0-9.,]*(?:e[+\\-]?[0-9]+)?%?', faults = [];
  var whole = new RegExp('(?:at least |at most |[≤≥] )?' + one + '(?: (?:to|of) ' + one + ')?', 'g');
  var places = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), text;
  while ((text = places.nextNode())) {
    var e = text.parentElement, found;
    if (!shown(e) || !e.closest('td, dd') || e.closest('svg, pre, code, .facts, .verdict figcaption')) continue;
    var pattern = e.closest('td') && !e.closest('td.note') ? whole : new RegExp(one, 'g');
    pattern.lastIndex = 0;
    while ((found = pattern.exec(text.data))) {
      var range = document.createRange(); range.setStart(text, found.index);
      range.setEnd(text, found.index + found[0].length);
      var tops = new Set(Array.from(range.getClientRects()).map(function (r) { return Math.round(r.top); }));
      if (tops.size > 1) faults.push(found[0] + ' in ' + named(e));
    }
  }
  return faults; }"""
)
_LABELS = (
    "() => {"
    + _NAMED
    + """
  var faults = [];
  document.querySelectorAll('.live svg').forEach(function (svg) {
    var chart = svg.closest('.chart').dataset.chart, frame = svg.getBoundingClientRect();
    var texts = Array.from(svg.querySelectorAll('text')).filter(function (e) {
      return e.textContent.trim() && getComputedStyle(e).opacity !== '0' && e.getAttribute('opacity') !== '0'
        && e.getAttribute('stroke') === null; });
    var boxes = texts.map(function (e) { return e.getBoundingClientRect(); });
    texts.forEach(function (e, i) {
      var a = boxes[i], words = e.textContent.trim();
      if (a.left < frame.left - 2 || a.right > frame.right + 2 || a.top < frame.top - 2 || a.bottom > frame.bottom + 2)
        faults.push('cut in ' + chart + ': ' + words);
      if (/[0-9], ?…|^…$/.test(words)) faults.push('shortened in ' + chart + ': ' + words);
      for (var j = 0; j < i; j++) {
        var b = boxes[j], across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        var down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > -3 && down > 4)
          faults.push('collide in ' + chart + ': ' + texts[j].textContent + ' | ' + words); } }); });
  return faults; }"""
)
_BLANK = """() => {
  var faults = [];
  document.querySelectorAll('.live svg').forEach(function (svg) {
    var frame = svg.getBoundingClientRect(), rows = new Set();
    svg.querySelectorAll('text, path, line, rect').forEach(function (e) {
      if (e.matches('.background') || e.closest('[class*=role-axis-grid]')) return;
      var box = e.getBoundingClientRect();
      if (e.getAttribute('opacity') === '0' || (box.width > 0.9 * frame.width && box.height > 0.5 * frame.height
          && e.getAttribute('fill') !== 'none' && !e.getAttribute('d').includes('L'))) return;
      for (var y = Math.floor(box.top); y <= Math.ceil(box.bottom); y++) rows.add(y); });
    var longest = 0, run = 0;
    for (var y = Math.floor(frame.top); y < frame.bottom; y++) {
      run = rows.has(y) ? 0 : run + 1; longest = Math.max(longest, run); }
    if (longest > 36 && longest > 0.2 * frame.height)
      faults.push(longest + ' of ' + Math.round(frame.height) + ' px: ' + svg.closest('.chart').dataset.chart); });
  return faults; }"""
_TWICE = (
    "() => {"
    + _NAMED
    + r"""
  var held = new Map(), faults = [];
  var verdict = document.querySelector('.verdict .lead'), word = document.querySelector('.verdict .badge');
  document.querySelectorAll('main p, main li, main dd, main figcaption span').forEach(function (e) {
    if (!shown(e) || e.querySelector('p, li') || e.matches('.verdict p:not(.lead), .pair figcaption span')) return;
    e.innerText.split(/[.!?]\s+|\n/).forEach(function (text) {
      text = text.replace(/\s+/g, ' ').replace(/[.:]$/, '').trim();
      if (text.length < 48 || text.startsWith('miaudit ')) return;
      if (held.has(text)) faults.push(text.slice(0, 90)); else held.set(text, e); }); });
  if (verdict && word && verdict.innerText.trim().toLowerCase().startsWith(word.innerText.trim().toLowerCase()))
    faults.push('the verdict: ' + verdict.innerText.slice(0, 60));
  return faults; }"""
)
_LAID_OUT = {"column": _COLUMN, "numbers": _NUMBERS, "labels": _LABELS, "blank": _BLANK, "twice": _TWICE}
_STOPS = (
    "() => {"
    + _NAMED
    + """
  var all = Array.from(document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]'));
  window.stops = all.filter(function (e) { return e.tabIndex >= 0 && !e.disabled && shown(e); });
  document.activeElement.blur(); window.scrollTo(0, 0);
  return window.stops.map(named); }"""
)
_FOCUS = """() => { var e = document.activeElement, look = getComputedStyle(e), box = e.getBoundingClientRect();
  var seen = look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 2 && box.right > 0;
  return [window.stops.indexOf(e), seen]; }"""
_PAPER = (
    "() => {"
    + _NAMED
    + """
  var faults = [];
  document.querySelectorAll('input, button, select, .control, .live').forEach(function (e) {
    if (shown(e)) faults.push('control: ' + named(e)); });
  document.querySelectorAll('main *').forEach(function (e) {
    if (!shown(e) || e.closest('svg')) return;
    if (e.getBoundingClientRect().right > innerWidth + 1) faults.push('cut: ' + named(e));
    if (e.matches('.scroll') && (e.scrollHeight > e.clientHeight + 2 || getComputedStyle(e).overflowY !== 'visible'))
      faults.push('clipped: ' + named(e));
    if (e.matches('figure') && getComputedStyle(e).breakInside === 'auto') faults.push('may be split: ' + named(e)); });
  return faults; }"""
)
_BARE = (
    "(said) => {"
    + _NAMED
    + """
  var faults = [], text = document.body.innerText.replace(/\\s+/g, ' ');
  said.forEach(function (one) {
    if (!text.toLowerCase().includes(one.toLowerCase())) faults.push('not said: ' + one.slice(0, 60)); });
  var place = document.querySelector('#verdict, #h-audits, #questions').parentElement;
  if (!/[0-9]/.test(place.innerText)) faults.push('no number');
  document.querySelectorAll('[data-chart]').forEach(function (e) {
    var still = e.querySelector('img.still');
    if (!still || !shown(still) || still.naturalWidth === 0) faults.push('no picture of ' + e.dataset.chart);
    if (!e.querySelector('[role=img]').getAttribute('aria-label')) faults.push('no words for ' + e.dataset.chart); });
  document.querySelectorAll('input, button, select').forEach(function (e) {
    if (shown(e)) faults.push('dead control: ' + named(e)); });
  return faults; }"""
)


# -- what is told ------------------------------------------------------------------------------------------------------


def _told(seen: Sequence[Seen]) -> str:
    checks = [one.name for one in dataclasses.fields(Seen)[2:]]
    widest = max(len(one.kind) for one in seen)
    lines = [f"{'kind':<{widest}} width  " + " ".join(f"{name:>8}" for name in checks)]
    for one in seen:
        counts = " ".join(f"{len(getattr(one, name)) or '·':>8}" for name in checks)
        lines.append(f"{one.kind:<{widest}} {one.width:>5}  {counts}")
    for one in seen:
        found = {**one.faults, **({"minor": one.minor} if one.minor else {})}
        lines += [f"{one.kind} at {one.width}: {name}: {text}" for name, texts in found.items() for text in texts]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Look at pages of every kind, or of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for pages and screenshots")
    every = (*KINDS, INDEX, DOSSIER, PUBLIC)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(every)}; default: all")
    given = parser.parse_args(words)
    unknown = sorted(set(given.kinds) - set(every))
    if unknown or missing():
        print(f"look: {f'no kind {unknown[0]}' if unknown else missing()}", file=sys.stderr)
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    with opened() as browser:
        seen = [one for kind in given.kinds or every for one in look(browser, kind, given.out)]
    print(_told(seen))
    return int(any(one.faults for one in seen))


if __name__ == "__main__":
    sys.exit(main())
