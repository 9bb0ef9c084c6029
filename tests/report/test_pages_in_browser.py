"""Pages of every kind in a browser: axe-core, widths, keyboard, no scripts, print; and that each of these can fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import look

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(look.missing()), reason=look.missing() or "can be looked at")]
FEW = ("zero-run-refused", look.INDEX)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with look.opened() as opened:
        yield opened


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in FEW else pytest.mark.thorough)
        for kind in (*look.KINDS, look.INDEX, look.DOSSIER, look.PUBLIC)
    ],
)
def test_nothing_is_wrong_with_it(browser: Any, tmp_path: Path, kind: str) -> None:
    for seen in look.look(browser, kind, tmp_path):
        assert seen.faults == {}, f"{kind} at {seen.width}"
        assert seen.minor == []
        assert (tmp_path / f"{kind}-{seen.width}.png").stat().st_size > 5000
    assert (tmp_path / f"{kind}.pdf").read_bytes().startswith(b"%PDF")


SPOILT = {
    "axe": '<p style="color:#ccc;background:#fff">Too pale to be read</p>',
    "wide": '<div style="width:3000px">wide</div>',
    "keyboard": '<a href="#x" style="outline:0">no focus</a>',
    "bare": '<input type="range" aria-label="dead">',
    "paper": '<div class="scroll" style="max-height:20px;overflow:auto!important"><p style="height:99px">x</p></div>',
    "console": '<img alt="" src="nowhere.png">',
    "column": "<section><p style='width:300px'>A narrow paragraph beside a wide table</p></section>",
    "numbers": '<table><tr><td style="display:block;width:40px">0.642 to 0.901</td></tr></table>',
    "labels": '<div class="chart"><div class="live"><svg width="99" height="30">'
    '<text x="9" y="20">+4%</text><text x="29" y="20">+5%</text></svg></div></div>',
    "blank": '<div class="chart"><div class="live"><svg width="99" height="200">'
    '<text x="9" y="190">0.5</text></svg></div></div>',
    "twice": "<section>" + "<p>One and the same sentence that stands on a page more than once.</p>" * 2 + "</section>",
}


def spoil(monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str = "") -> None:
    honest = look.draw

    def spoilt(name: str, out: Path) -> tuple[Path, list[str]]:
        page, sentence = honest(name, out)
        page.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        return page, [said] if said else sentence

    monkeypatch.setattr(look, "draw", spoilt)


def test_each_check_can_fail(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, "</main>", f"{''.join(SPOILT.values())}</main>")
    (seen,) = look.look(browser, "zero-run-refused", tmp_path, [look.WIDE])
    assert set(seen.faults) == set(SPOILT)
    assert "collide" in seen.labels[0] and "0.642" in seen.numbers[0]
    assert "color-contrast" in seen.axe[0] and "dead control" in seen.bare[0]
    assert any("clipped" in fault for fault in seen.paper) and "page of" in seen.wide[0]


def test_a_page_without_its_sentence_or_charts_is_seen(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, "data:image/svg", "data:text/svg", said="what no page says")
    (seen,) = look.look(browser, "zero-run-refused", tmp_path, [look.PHONE])
    assert seen.bare[0].startswith("not said")
    assert any(fault.startswith("no picture of ") for fault in seen.bare)


def test_a_small_number_stays_in_its_sentence_on_a_phone(browser: Any, tmp_path: Path) -> None:
    """Of a cell that is laid out as a grid, each element would take a row of its own."""
    page, _ = look.draw(look.INDEX, tmp_path)
    tab = browser.new_page(viewport={"width": look.PHONE, "height": 900})
    tab.goto(page.as_uri())
    tab.evaluate("document.querySelector('td.note').innerHTML = 'at <span class=\"whole\">1e-05</span> is proven'")
    tops = tab.evaluate(
        """() => Array.from(document.querySelector('td.note').childNodes).map(function (e) {
        var range = document.createRange(); range.selectNodeContents(e);
        return Math.round(range.getBoundingClientRect().top); })"""
    )
    tab.close()
    assert len(tops) == 3
    assert len(set(tops)) == 1
