"""The papers' pages: every numbered item of a paper has its row, and what a row names can be run or imported."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from miaudit.command import program

ROOT = Path(__file__).parent.parent
PAPERS = ROOT / "docs" / "papers"
TEXTS = ROOT.parent / "shared" / "papers"  # the papers themselves, where they are at hand

# What each paper numbers, read off its text. Of figures in parts each part that has a number of its own.
ITEMS = {
    "causal-mia": """
        Algorithm 1 to 3; Assumption 2.1, 6.1, 6.3, A.1, A.2, A.4; Definition 5.2, 5.3, A.3; Eq. 1 to 11; Figure 1, 2,
        3(a), 3(b), 3(c), 4; Lemma F.1; Proposition 4.1, 4.2, 5.1, 6.2, A.5, C.1, C.2; Remark 5.5; Table 1, 2;
        Theorem 5.4, 6.4, B.1; Appendix D""",
    "zero-run": """
        Algorithm 1 to 9; Assumption 1, 2; Corollary 1, 2; Definition 1 to 4; Eq. 1 to 14; Figure 1, 2(a), 2(b), 2(c);
        Lemma 1, 2; Proposition 1 to 8; Remark 1, 2; Theorem 4.1, 5.1, C.1, C.2, D.1, D.2, D.3; Appendix F""",
    "causal-synthesis": """
        Algorithm 1; Assumption 1; Eq. 1 to 23; Figure 1 to 8; Lemma 1; Table 1 to 10; Theorem 1; Appendix B, C""",
    "uncertainty-mia": """
        Definition 1; Eq. 1 to 45; Figure 1 to 14; Lemma 1, 2; Proposition 1 to 3; Appendix A to G""",
}
POST = (  # threshold-post numbers nothing: its headings, its functions and its claims with a number
    *("Likelihood ratio test", "gaussian_lira_score", "threshold_predict", "train.py", "compute_mia_roc"),
    *("mia_config.yaml", "AUC .60", "AUC .65", "Levels", "strictly more powerful", "mu_out = infinity"),
    *("regularisation", "early stopping", "differential privacy", "Conclusion"),
)
NAMES = (*ITEMS, "threshold-post")
TITLES = {
    "causal-mia": "Membership Inference Attacks from Causal Principles",
    "zero-run": "Privacy Auditing with Zero (0) Training Run",
    "threshold-post": "Membership Inference at the Threshold",
    "causal-synthesis": "Causally Constrained Data Synthesis for Private Data Release",
    "uncertainty-mia": "On the Impact of Uncertainty and Calibration on Likelihood-Ratio Membership Inference Attacks",
}

_KINDS = "Algorithm|Appendix|Assumption|Corollary|Definition|Eq|Figure|Lemma|Proposition|Remark|Table|Theorem"
_LABEL = r"(?:[A-H](?:\.\d+)?|\d+(?:\.\d+)?)(?:\([a-z]\))?(?![\w.]*\w)"
_ITEM = re.compile(rf"\b({_KINDS}|Appendice|Fig)(?:s\b|\b)\.? ({_LABEL}(?:(?:, | and | to ){_LABEL})*)")


def items(text: str) -> set[str]:
    """Return the items that a text names: "Tables 1, 3 to 5" are four."""
    found = set()
    for kind, labels in _ITEM.findall(" ".join(text.split())):
        name = {"Fig": "Figure", "Appendice": "Appendix"}.get(kind, kind)
        for part in re.split(", | and ", labels):
            first, _, last = part.partition(" to ")
            found |= {f"{name} {label}" for label in (between(first, last) if last else (first,))}
    return found


def between(first: str, last: str) -> Iterator[str]:
    """Yield the labels from one to another, numbers or letters."""
    if first.isdigit():
        yield from map(str, range(int(first), int(last) + 1))
    else:
        yield from map(chr, range(ord(first), ord(last) + 1))


def rows(page: str) -> list[list[str]]:
    """Return the cells of the table of all items."""
    table = page.split("\n## Every item\n")[1].split("\n## ", maxsplit=1)[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]


def missing(name: str, page: str) -> set[str]:
    """Return the items of a paper that have no row."""
    first = "; ".join(row[0] for row in rows(page))
    if name == "threshold-post":
        return {item for item in POST if item not in first}
    return items(ITEMS[name]) - items(first)


def page_of(name: str) -> str:
    return (PAPERS / f"{name}.md").read_text(encoding="utf-8")


def test_lists_and_ranges_of_items_are_read() -> None:
    assert items("Tables 5 and 6, Figs. 1 to 3") == {"Table 5", "Table 6", "Figure 1", "Figure 2", "Figure 3"}
    assert items("Figure 2(a), unaware, at 3; Eqs. 4, A.5 and 9") == {"Figure 2(a)", "Eq 4", "Eq A.5", "Eq 9"}
    assert items("Theorem 5.1 of 12 records") == {"Theorem 5.1"}


@pytest.mark.parametrize("name", NAMES)
def test_every_item_of_a_paper_has_a_row(name: str) -> None:
    page = page_of(name)
    assert page.startswith(f"# {name}: {TITLES[name]}\n")
    assert missing(name, page) == set()
    assert {len(row) for row in rows(page)} == {5}
    assert not re.search(r"\bnot run\b", page)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_that_is_left_out_is_missed(name: str) -> None:
    """The control: without any one of its rows a page is incomplete, but for rows that go into detail."""
    page = page_of(name)
    lines = [line for line in page.split("\n## Every item\n")[1].splitlines() if line.startswith("| ")][1:]
    caught = [line for line in lines if missing(name, page.replace(line, "", 1))]
    assert len(caught) > len(lines) / 3
    assert len(missing(name, re.sub(r"(?m)^\| (?!item).*\n", "", page))) == len(
        POST if name == "threshold-post" else items(ITEMS[name])
    )


@pytest.mark.skipif(not TEXTS.is_dir(), reason="the texts of the papers are not here")
@pytest.mark.parametrize("name", ITEMS)
def test_the_items_are_those_of_the_text(name: str) -> None:
    """A second truth: what stands at the start of a line of the paper."""
    number = ["causal-mia", "zero-run", "threshold-post", "causal-synthesis", "uncertainty-mia"].index(name)
    text = next(TEXTS.glob(f"00{number}_*.txt")).read_text(encoding="utf-8")
    heads = {
        f"{kind} {label}" for kind, label in re.findall(rf"(?m)^\**(Fig|{_KINDS})\.? ([A-H]\.\d+|\d+(?:\.\d+)?)", text)
    }
    named = {re.sub(r"\([a-z]\)", "", item) for item in items(ITEMS[name]) if not item.startswith(("Eq", "Appendix"))}
    assert {head.replace("Fig ", "Figure ") for head in heads} == named


# -- what a row names --------------------------------------------------------------------------------------------------


def spans(name: str) -> list[str]:
    """Return what a page has in code type."""
    return re.findall(r"`([^`]+)`", page_of(name))


def script_of(name: str, file: str) -> Path:
    """Return a script that a page names, of the paper's own folder or of another one's."""
    own = ROOT / "experiments" / name.replace("-", "_") / file
    return own if own.is_file() else ROOT / "experiments" / file


def scripts(name: str) -> Iterator[tuple[Path, list[str]]]:
    for span in spans(name):
        words = shlex.split(span)
        if re.fullmatch(r"[\w/]+\.py", words[0]) and words[0] != "train.py":  # the post's own
            yield script_of(name, words[0].removeprefix("experiments/")), words[1:]


@functools.cache
def arguments(script: Path) -> dict[str, tuple[str, ...]]:
    """Return the options of a script, with the choices that are written out."""
    found = {}
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            choices = next((k.value for k in node.keywords if k.arg == "choices"), None)
            options = choices.elts if isinstance(choices, ast.Tuple) else []
            written = tuple(str(one.value) for one in options if isinstance(one, ast.Constant))
            found |= {ast.literal_eval(one): written for one in node.args}
    return found


def wrong_options(script: Path, words: list[str]) -> list[str]:
    """Return what a script would not take of a command: an option, or a value that it does not know."""
    known, wrong, option = arguments(script), [], ""
    for word in words:
        if word.startswith("--"):
            option = word
            wrong += [word] if word not in known else []
        elif option == "--form":
            forms = {key for file in script.parent.glob("*.yaml") for key in yaml.safe_load(file.read_text())}
            written = f'"{word}"' in script.read_text(encoding="utf-8")  # a form of the script itself
            wrong += [word] if word not in forms and not written else []
        elif known.get(option) and word not in known[option]:
            wrong.append(word)
    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_scripts_of_a_page_exist_and_take_its_options(name: str) -> None:
    found = list(scripts(name))
    assert found
    for script, words in found:
        assert script.is_file(), script
        assert wrong_options(script, words) == [], (script, words)


def test_an_option_that_a_script_does_not_have_is_seen() -> None:
    script = ROOT / "experiments" / "causal_mia" / "run.py"
    assert wrong_options(script, ["--full", "--fool"]) == ["--fool"]
    assert wrong_options(script, ["--form", "curves"]) == []
    assert wrong_options(script, ["--form", "none"]) == ["none"]


def command_options(words: list[str]) -> set[str]:
    """Return the options that a command of miaudit takes."""
    return {flag for parameter in program.loaded(words[1]).params for flag in parameter.opts}


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_a_page_exist_and_take_its_options(name: str) -> None:
    for span in spans(name):
        words = shlex.split(span)
        if words[0] == "miaudit":
            assert words[1] in program.COMMANDS, span
            assert {word for word in words if word.startswith("--")} <= command_options(words), span
        elif words[0].startswith("--"):
            assert words[0] in command_options(["miaudit", "audit"]) | {"--design"}, span


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_a_page_exist(name: str) -> None:
    rooms = {path.name for path in (ROOT / "src" / "miaudit").iterdir() if path.is_dir()}
    here = [row[1] for row in rows(page_of(name))]
    named = [span for cell in here for span in re.findall(r"`([a-z_]+(?:\.\w+)+)`", cell)]
    known = [span for span in named if span.partition(".")[0] in rooms and not span.endswith((".py", ".yaml"))]
    assert known
    for span in known:
        assert pkgutil.resolve_name(f"miaudit.{span}"), span


@pytest.mark.thorough
def test_scripts_of_the_pages_give_help() -> None:
    for script in sorted({script for name in NAMES for script, _ in scripts(name) if arguments(script)}):
        paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
        done = subprocess.run(
            [sys.executable, str(script), "--help"],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "usage" in done.stdout


# -- short names -------------------------------------------------------------------------------------------------------

_SHORT = r"\[?(?<![\w/_-]){name}\b(?!\.md|/)"
_ZERO_RUN = (  # also the name of a design: the paper is what has theorems
    rf"(?:{_KINDS})s?\.? [^|\n]{{0,40}}? of (?:the )?(?P<one>\[?zero-run)\b"
    r"|(?P<two>\[?zero-run)(?:\]\([^)\s]*\))? paper\b"
)


def bare_names(text: str) -> list[str]:
    """Return the papers whose short name first appears on a page without a link to the paper's page."""
    text, wrong = re.sub(r"(?ms)^```.*?^```", "", text), []
    for name in NAMES:
        pattern = _ZERO_RUN if name == "zero-run" else _SHORT.format(name=name)
        first = re.search(pattern, text)
        if first is None:
            continue
        groups = first.groupdict()
        start = first.start("one" if groups["one"] else "two") if groups else first.start()
        if not re.match(rf"\[{name}\]\([^)]*papers/{name}\.md[^)]*\)", text[start:]):
            wrong.append(name)
    return wrong


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "api").glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_short_name_of_a_paper_leads_to_its_page(path: Path) -> None:
    assert bare_names(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("The score of threshold-post.", ["threshold-post"]),
        ("The score of [threshold-post](papers/threshold-post.md), and threshold-post again.", []),
        ("[causal-mia](other.md)", ["causal-mia"]),
        ("Theorem C.1 of zero-run, in a zero-run audit", ["zero-run"]),
        ("Theorem C.1 of [zero-run](papers/zero-run.md), then the zero-run paper", []),
        ("Algorithm 2 of the [zero-run](papers/zero-run.md) paper", []),
        ("a zero-run audit, `zero-run`", []),
    ],
)
def test_a_short_name_without_its_page_is_seen(text: str, bare: list[str]) -> None:
    assert bare_names(text) == bare


# -- make experiments --------------------------------------------------------------------------------------------------

# Scripts of the papers that have no small form, and why.
WITHOUT_A_SMALL_FORM = {
    "zero_run/bounds_worlds.py": "hours",
    "zero_run/synthetic.py": "a part of run.py",
}


@functools.cache
def small_forms() -> ModuleType:
    """Return the module of ``make experiments``."""
    spec = importlib.util.spec_from_file_location("small_forms", ROOT / "experiments" / "small_forms.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["small_forms"] = module
    spec.loader.exec_module(module)
    return module


def made() -> list[tuple[Path, list[str]]]:
    """Return what ``make experiments`` runs, with its options."""
    return [(ROOT / "experiments" / form.script, form.command(Path("data"))[2:]) for form in small_forms().FORMS]


def test_make_experiments_runs_every_script_of_the_papers() -> None:
    run = {str(script.relative_to(ROOT / "experiments")) for script, _ in made()}
    named = {str(script.relative_to(ROOT / "experiments")) for name in NAMES for script, _ in scripts(name)}
    assert "experiments/small_forms.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named - run == set(WITHOUT_A_SMALL_FORM)
    for script, words in made():
        assert script.is_file(), script
        assert wrong_options(script, words) == [], (script, words)
