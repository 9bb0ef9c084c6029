"""What every page shares, in a browser: on a phone nothing that a chart says is cut."""

import html as entities
import re

import pytest

from miaudit.report import comparison_page, page_frame
from report import test_audit_page
from report.test_audit_page import in_browser, needs_chromium

LONG = "Share of the trials in which the attack was right about the record, in percent; further right is worse"
ROWS = [{"name": f"row {i}", "text": "", "low": 0.1, "value": 0.2, "high": 0.3} for i in range(3)]
FINDINGS = {
    "KIND": "comparison",
    "before": "a",
    "after": "b",
    "text": "",
    "cautions": [],
    "confidence": 0.95,
    "repeat": {"miaudit": "0"},
}


def lines_of_the_axis_title(document):
    """The text elements of the drawn chart that hold words of the long title; a title of several lines has tspans."""
    drawn = document[document.index('class="chart drawn"') :]
    found = re.findall(r"<text[^>]*>((?:(?!</text>).)*Share of the trials.*?)</text>", drawn, re.S)
    return [entities.unescape(part) for text in found for part in re.split(r"<[^>]*>", text) if part]


@pytest.mark.long
@needs_chromium
@pytest.mark.parametrize(("width", "lines"), [(500, 2), (1200, 1)])
def test_a_long_axis_title_is_wrapped_on_a_phone_only(tmp_path, monkeypatch, width, lines):
    monkeypatch.setattr(test_audit_page, "FLAGS", (*test_audit_page.FLAGS, f"--window-size={width},900"))
    chart = comparison_page.intervals(ROWS, axis=LONG, against=0.0, title="A chart", sentences=[])
    verdict = {"status": "clear", "word": "Fine", "what": "Nothing", "text": ""}
    page = page_frame.render(
        "comparison_page.html",
        {**FINDINGS, "records": ""},
        {"differences": chart},
        verdict=verdict,
        rows=[],
        plain="",
        next=(),
        deciding="",
    )
    document, console = in_browser(tmp_path, page)
    assert console == []
    found = lines_of_the_axis_title(document)
    assert " ".join(found) == LONG
    assert (len(found) > 1) == (lines > 1)
    if lines > 1:
        assert max(map(len, found)) < 70


def test_cells_are_labelled_by_their_columns_and_labels_stay_text():
    rows = '<tr class="x"><th scope="row">a<small>b</small></th><td class="note">1</td>\n<td>–</td><td>2</td></tr>' * 2
    found = str(page_frame.labelled(rows, ["Name", 'A "quoted"\n<b>', "None", "More"]))
    assert found.count('data-label="A &#34;quoted&#34; &lt;b&gt;" class="note">1<') == 2
    assert found.count('<td data-label="None" data-none>–</td>') == 2
    assert found.count('<td data-label="More" class="number">2<') == 2
    assert found.count('<th data-label="Name" scope="row">a<') == 2
    assert re.sub(r' data-(label="[^"]*"|none)| class="number"', "", found) == rows


def test_a_number_in_a_cell_stays_whole_and_its_interval_goes_below():
    stacked = '<td data-label="AUC" class="number">{}<small class="limits">{}</small></td>'
    for text, parts in (
        ("0.6 (0.5 to 0.7)", ("0.6", "0.5 to 0.7")),
        ("+19.2% (+9.58% to +28.6%)", ("+19.2%", "+9.58% to +28.6%")),
        ("27.5% (33 of 120)", ("27.5%", "33 of 120")),
    ):
        assert str(page_frame.labelled(f"<tr><td>{text}</td></tr>", ["AUC"])) == f"<tr>{stacked.format(*parts)}</tr>"
    for words in ("raw", "12 of them", "no answer (inconclusive)", "3 days"):  # a control: words are left alone
        assert 'class="number"' not in str(page_frame.labelled(f"<tr><td>{words}</td></tr>", ["AUC"]))
    exponent = str(page_frame.labelled('<tr><td class="note">p = 3.9e-11 of none</td></tr>', ["Test"]))
    assert 'p = <span class="whole">3.9e-11</span> of none' in exponent
