"""The pages of a verification and of a challenge: text from a bundle stays text, in a parser and in a browser."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Declared
from miaudit.auditing.plan import Plan
from miaudit.bundle import archive, challenge, contents, read, record
from miaudit.bundle.verify import verify
from miaudit.errors import InputError
from miaudit.findings.kinds import from_dict
from miaudit.findings.kinds import read as read_findings
from miaudit.report import bundle_page, kinds
from report.test_audit_page import EVIL, Page, in_browser, needs_chromium

N = 400
NAME = EVIL.replace("\u2028", " ")  # the door of evidence refuses line separators in names of scores


def bundle(path, name="loss", text="a note", change=None):
    rng = np.random.default_rng(0)
    member = np.arange(N) % 2 == 0
    held = ma.Evidence(
        score={name: rng.normal(size=N) + 0.5 * member}, member=member, design="one-run", group=np.array([text] * N)
    )
    plan = Plan(headline=Declared(name), primary_metric="auc", bounds=None)
    record(held, plan=plan, rng=rng, notes=(text,), repeat={"command": text})[1].write(path, overwrite=True)
    if change is not None:
        with zipfile.ZipFile(path) as archived:
            entries = {entry: archived.read(entry) for entry in archived.namelist()}
        stated = json.loads(entries["findings.json"])
        change(stated)
        entries["findings.json"] = json.dumps(stated).encode()
        manifest = json.loads(entries["manifest.json"])
        manifest["files"]["findings.json"]["sha256"] = contents._sha256(entries["findings.json"])
        manifest["files"][text] = {}
        entries["manifest.json"] = json.dumps(manifest).encode()
        archive.write(path, entries)
    return path


def hostile(stated):
    stated["verdict"]["text"] = EVIL
    stated["notes"] = [EVIL]
    stated["groups"][0]["group"] = EVIL + "2"


def verification(tmp_path, name=NAME, text=EVIL, change=hostile):
    return replace(verify(bundle(tmp_path / "b.zip", name, text, change)), repeat={"command": text})


def contested(tmp_path, name=NAME, text=EVIL):
    held = read(bundle(tmp_path / "b.zip", name, text))
    scores = held.evidence().score + held.evidence().member
    return replace(challenge.by_scores(held, scores, rng=np.random.default_rng(0)), repeat={"command": text})


PAGES = {"verification": verification, "challenge": contested}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("make", PAGES.values(), ids=PAGES)
def test_text_from_a_bundle_stays_text(tmp_path, make):
    page, plain = (Page(bundle_page.page(made)) for made in (make(tmp_path), make(tmp_path, name="loss", text="plain")))
    assert len(page.scripts) == len(plain.scripts)
    tags, expected = ([tag for tag, _ in which.elements] for which in (page, plain))
    assert set(tags) == set(expected)
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert "alert(1)" in " ".join(page.text)


@pytest.mark.thorough
@pytest.mark.long
@needs_chromium
@pytest.mark.parametrize("make", PAGES.values(), ids=PAGES)
def test_nothing_of_a_bundle_runs_in_a_browser(tmp_path, make):
    text = bundle_page.page(make(tmp_path))
    document, console = in_browser(tmp_path, text)
    assert console == []
    assert "<script>alert" not in document.lower()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in document


@pytest.mark.long
@needs_chromium
def test_a_script_that_is_not_escaped_would_be_seen(tmp_path):
    """The control: the same words put into the page as they are do leave a trace in the document."""
    text = bundle_page.page(verification(tmp_path)).replace("</main>", f"{EVIL}</main>")
    document, console = in_browser(tmp_path, text)
    assert console or "<script>alert" in document.lower()


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("make", PAGES.values(), ids=PAGES)
def test_pages_are_written_and_read_back(tmp_path, make):
    made = make(tmp_path)
    kinds.write(made, tmp_path / "out")
    assert read_findings(tmp_path / "out" / "findings.json").to_dict() == made.to_dict()
    for key in made.to_dict():
        if key not in ("format", "kind"):
            with pytest.raises(InputError):
                from_dict({name: value for name, value in made.to_dict().items() if name != key})


def test_differences_are_named_on_the_page(tmp_path):
    page = " ".join(Page(bundle_page.page(verification(tmp_path))).text)
    for place in ("findings.verdict.text", "findings.groups[0].group", "Verification failed"):
        assert place in page


@pytest.mark.long
def test_in_part_is_said_and_is_no_green_page(tmp_path):
    rng = np.random.default_rng(0)
    member = rng.random(N) < 0.5
    held = ma.Evidence(score=rng.normal(size=N), member=member, covariates=rng.normal(size=N), design="zero-run")
    record(held, plan=Plan(bounds=None), rng=rng, share="scores")[1].write(tmp_path / "b.zip")
    made = verify(tmp_path / "b.zip")
    page = bundle_page.page(made)
    assert made.exit_code == 4
    assert "Verified in part" in page
    assert "not the verdict" in page
