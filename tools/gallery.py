"""Draw the pictures and the page of docs/gallery.md: ``python tools/gallery.py`` (needs Chromium, takes some minutes).

The first pages are those of README's commands on the files of ``miaudit demo``. The others are made of the small inputs
of ``tests/frozen``. Each picture is the first screen of a page, at half size. Nothing is downloaded.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parent
sys.path.insert(0, str(TOOLS))
import look  # noqa: E402

DOCS = TOOLS.parent / "docs"
PICTURES = DOCS / "images" / "gallery"
WIDTH, HEIGHT, SCALE = 1280, 860, 0.5
DEMO = "Numbers of the demo."
SAMPLE = ""
CLAIM = """\
about: {model: digits, version: "1.0", owner: Example Ltd, purpose: reads digits, by: audit team, date: 2026-03-01}
attack: {type: loss}
evaluation:
  member_losses_path: results/demo/data/member_losses.npy
  nonmember_losses_path: results/demo/data/nonmember_losses.npy
  design: one-run
privacy: {claim: {epsilon: 1, delta: 1e-5}}
"""


@dataclass(frozen=True)
class Shown:
    """A page of the gallery: its picture, a title, one sentence, the command, and where its numbers come from."""

    name: str
    title: str
    sentence: str
    command: str
    data: str = SAMPLE
    kind: str = ""  # of tools/look.py; empty for a page of the demo


PAGES = (
    Shown("demo", "An audit", "What an attack identifies, against each limit, with intervals.", "miaudit demo", DEMO),
    Shown(
        "claim",
        "A claim of differential privacy",
        "What the runs prove about epsilon, beside what is claimed.",
        "miaudit run claim.yaml --bundle claim.zip",
        DEMO,
    ),
    Shown(
        "zero-run",
        "An audit without random assignment",
        "How much of the raw number is memorisation, and how much is the difference between two populations.",
        "miaudit audit scores.csv --design zero-run --covariates age,year",
        kind="zero-run-answered",
    ),
    Shown(
        "refused",
        "An audit that is refused",
        "Why members and non-members cannot be compared, and what to do next.",
        "miaudit audit scores.csv --design zero-run --covariates age,year",
        kind="zero-run-refused",
    ),
    Shown(
        "disclosure",
        "What a model may return",
        "What probabilities, label sets and labels give away, with defences beside them.",
        "miaudit disclosure disclosure.yaml",
        kind="disclosure",
    ),
    Shown(
        "table",
        "A synthetic table under attack",
        "Copies, singling out, linkability and inference, on members less control records.",
        "miaudit audit --synthetic S.csv --members M.csv --nonmembers N.csv",
        kind="table",
    ),
    Shown(
        "synthesis",
        "A private release",
        "What a synthetic table guarantees, and whether it is of use.",
        "miaudit synthesise synthesise.yaml",
        kind="synthesis-private",
    ),
    Shown(
        "extraction",
        "What a language model repeats",
        "The share of training texts that come out word for word, beside control texts.",
        "miaudit extraction tokens.jsonl --design one-run",
        kind="extraction",
    ),
    Shown(
        "usage",
        "Were these records used?",
        "A lower bound on the share of records that a training used.",
        "miaudit usage probes.jsonl",
        kind="usage",
    ),
    Shown(
        "deletion",
        "Did the deletion work?",
        "Scores of deleted records, before and after, against a margin that was stated first.",
        "miaudit usage after.jsonl --deleted before.jsonl",
        kind="deletion",
    ),
    Shown(
        "compared",
        "Two releases",
        "Each metric before and after, with an interval on the difference.",
        "miaudit compare results/demo results/claim",
        DEMO,
    ),
    Shown(
        "history",
        "All releases of a model",
        "The primary metric over time, and each step judged.",
        "miaudit history results/v1 results/v2 results/v3",
        kind="history",
    ),
    Shown(
        "verified",
        "A bundle that was verified",
        "The verdict of the audit first, then whether it follows from the evidence.",
        "miaudit verify claim.zip report.html",
        DEMO,
    ),
    Shown(
        "challenge",
        "A bundle that was challenged",
        "Whether a stronger attack on the same records wins.",
        "miaudit challenge audit.zip --scores scores.npy",
        kind="challenge",
    ),
    Shown(
        "dossier",
        "A dossier for a data protection file",
        "The questions of three guidelines, each with what was measured or “not tested”.",
        "miaudit export results --to dossier",
        DEMO,
    ),
)


def of_the_demo(place: Path) -> dict[str, Path]:
    """Run the commands of README on the files of the demo; return the page of each."""
    results = place / "results"
    (place / "claim.yaml").write_text(CLAIM, encoding="utf-8")
    _run(place, "demo")
    _run(place, "run", "claim.yaml", "--out", str(results / "claim"), "--bundle", "claim.zip")
    _run(place, "compare", "results/demo", "results/claim", "--out", str(place / "compared"))
    _run(place, "verify", "claim.zip", "results/claim/report.html", "--out", str(place / "verified"))
    _run(place, "export", "results", "--to", "dossier", "--out", str(place / "dossier.html"))
    pages = {name: results / name / "report.html" for name in ("demo", "claim")}
    return (
        pages
        | {name: place / name / "report.html" for name in ("compared", "verified")}
        | {"dossier": place / "dossier.html"}
    )


def _run(place: Path, *words: str) -> None:
    line = [sys.executable, "-m", "miaudit", *words]
    done = subprocess.run(line, check=False, cwd=place, capture_output=True, text=True)
    if done.returncode not in (0, 3, 4):
        raise SystemExit(f"miaudit {' '.join(words)}: {done.stderr}")


def _photograph(browser: Any, page: Path, picture: Path) -> None:
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE)
    tab.goto(page.absolute().as_uri())
    tab.wait_for_timeout(500)  # charts
    tab.screenshot(path=picture)
    tab.close()


def text() -> str:
    """Return docs/gallery.md."""
    parts = [
        "# Gallery",
        "See one picture of each kind of report page, with the command that makes it.",
        "`python tools/gallery.py` makes the pictures and this page. Each shows the first screen of a page. Numbers "
        "are those of the small inputs of the tests, or of the demo where the page says so.",
    ]
    for one in PAGES:
        parts += [
            f"## {one.title}",
            f"{one.sentence} {one.data}".rstrip(),
            f"```\n{one.command}\n```",
            f"![{one.title}](images/gallery/{one.name}.png)",
        ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Draw every page, photograph it, and write docs/gallery.md."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, look.opened() as browser:
        pages = of_the_demo(Path(folder))
        for one in PAGES:
            page = pages[one.name] if one.name in pages else look.draw(one.kind, Path(folder))[0]
            _photograph(browser, page, PICTURES / f"{one.name}.png")
    (DOCS / "gallery.md").write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
