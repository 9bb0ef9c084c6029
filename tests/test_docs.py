"""Docs, help and architecture are tests: what they name must exist, and what exists must be named."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from miaudit.attacks import registry
from miaudit.command import program
from miaudit.config import audit as audit_config
from miaudit.config import section

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import house  # noqa: E402

DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
WITH_CODE = [*DOCS, ROOT / "experiments" / "uncertainty_mia" / "theory.md"]
PAPERS = sorted((ROOT / "docs" / "papers").glob("*.md"))
BARE_SECTION = re.compile(r"(?<!, )(?<!paper's )\b[Ss]ections? \d")  # of a page or a paper that is not named


@functools.cache
def commands() -> dict[str, Any]:
    return {name: program.loaded(name) for name in program.COMMANDS}


def test_every_command_has_help_and_answers_a_question() -> None:
    answers = (ROOT / "docs" / "start.md").read_text()
    assert {"demo", "run", "collect", "audit", "plan", "report", "verify", "challenge"} <= set(commands())
    for name, command in commands().items():
        assert command.help, name
        assert f"miaudit {name}" in answers, name


def every_command() -> dict[str, Any]:
    """Return every command by name, those of a group too."""
    first = commands()
    return first | {f"{a} {b}": c for a, one in first.items() for b, c in getattr(one, "commands", {}).items()}


def test_every_option_has_help() -> None:
    for name, command in every_command().items():
        for parameter in command.params:
            if parameter.name != "help":
                assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_options_in_the_docs_exist() -> None:
    known = {flag for c in every_command().values() for p in c.params for flag in p.opts}
    known |= {"--help", "--help-all", "--version"}
    for path in DOCS:
        for line in path.read_text().splitlines():
            if not line.startswith("docker ") and "benchmarks/" not in line and ("miaudit " in line or "`--" in line):
                for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line):
                    assert flag in known | {"--full"}, f"{path.name}: {flag}"


def keys(model: type[BaseModel] | section.Keys) -> Iterator[str]:
    for name, kind in section.keys_in(model).items():
        yield name
        for inner in section.sections_in(kind):
            yield from keys(inner)


def test_every_key_of_the_configuration_is_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    for key in (*keys(audit_config.AuditConfig), *keys(audit_config.CampaignConfig), *keys(audit_config.TableConfig)):
        assert f"`{key}`" in text or f"{key}:" in text or f"## {key}" in text, key


def architecture(title: str) -> str:
    """Return the section of ARCHITECTURE.md with this title."""
    return (ROOT / "ARCHITECTURE.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


@functools.cache
def imports() -> house.Graph:
    """Return the rooms that each room imports."""
    return house.graphs()[1]


@functools.cache
def rooms() -> dict[tuple[str, ...], set[str]]:
    """Return the table's rows: the rooms of each, and the packages that it says they read."""
    rows = re.findall(r"^\| (`.*?) \|.*\| (.*?) \|$", architecture("The rooms"), flags=re.M)
    return {tuple(re.findall(r"`([\w.]+)`", names)): set(re.findall(r"`(\w+)`", reads)) for names, reads in rows}


@pytest.mark.long
def test_the_architecture_has_every_room_once() -> None:
    named = [room for row in rooms() for room in row]
    assert len(named) == len(set(named))
    assert set(named) == set(imports())


@pytest.mark.long
@pytest.mark.parametrize("row", rooms(), ids="+".join)
def test_a_room_reads_what_the_architecture_says(row: tuple[str, ...]) -> None:
    imported = {read.partition(".")[0] for room in row for read in imports()[room]}
    found = imported - {room.partition(".")[0] for room in row} - {"arrays", "errors"}
    right = ", ".join(f"`{read}`" for read in sorted(found)) or "none"
    assert rooms()[row] == found, f"the last cell of the row of {row[0]} should be: {right}"


def test_the_picture_is_the_contract() -> None:
    picture = re.findall(r"```text\n(.*?)```", architecture("The picture"), flags=re.S)[0]
    lines = [re.split(r"\s{2,}", line)[0] for line in picture.splitlines()]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    assert lines == [layer.replace("miaudit.", "") for layer in contract["layers"]]


API = {name for path in ROOT.glob("docs/api/*.md") for name in re.findall(r"^::: (\S+)", path.read_text(), flags=re.M)}


@functools.cache
def public_names(module: str) -> frozenset[str]:
    """Return the names that a module shows: its ``__all__``, else what it defines without an underscore."""
    found = importlib.import_module(module)
    tree = ast.parse(house.modules()[module].read_text(encoding="utf-8"))
    named = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    set_there = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    own = named + [target.id for target in set_there if isinstance(target, ast.Name)]
    return frozenset(name for name in getattr(found, "__all__", own) if not name.startswith("_"))


def is_module(name: str) -> bool:
    return name in house.modules()


def is_public(name: str) -> bool:
    """Tell whether each part of a dotted name is shown by the one before."""
    parent, _, last = name.rpartition(".")
    if parent == house.NAME and is_module(name):  # a package that says what of it is for users
        return hasattr(importlib.import_module(name), "__all__")
    return not parent or (is_public(parent) and (not is_module(parent) or last in public_names(parent)))


def packages() -> list[str]:
    return [name for name, path in house.modules().items() if path.name == "__init__.py" and is_public(name)]


@pytest.mark.long
def test_every_public_name_of_a_package_is_in_the_api_pages() -> None:
    for package in packages():
        for name in public_names(package):
            of, found = f"{package}.{name}", getattr(importlib.import_module(package), name, None)
            below = is_module(of) and (found is None or isinstance(found, ModuleType))
            place = any(one == of or one.startswith(f"{of}.") for one in API) if below else package in API
            assert place, f"{of} is in __all__, and in no page of docs/api"


@pytest.mark.long
def test_the_api_pages_show_public_modules_alone() -> None:
    assert [name for name in sorted(API) if not is_module(name) or not is_public(name)] == []


def used(block: str) -> Iterator[str]:
    """Yield the names of miaudit that a block of Python imports, or reads from a module of ours."""
    tree, short = ast.parse(block), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "miaudit":
            short |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            short |= {alias.asname or "miaudit": alias.name for alias in node.names if alias.name.startswith("miaudit")}
    yield from short.values()
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if re.fullmatch(r"[\w.]+", text) and text.partition(".")[0] in short:
            yield short[text.partition(".")[0]] + text.removeprefix(text.partition(".")[0])


@pytest.mark.thorough
@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.name)
def test_python_in_the_docs_uses_public_names(path: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.M | re.S):
        for name in used(block):
            assert is_public(name), name


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("path", WITH_CODE, ids=lambda path: path.name)
def test_python_in_the_docs_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.M | re.S)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_ATTACKS", dict(registry.ATTACKS))  # what a page registers goes with it
    monkeypatch.setattr(registry.ATTACKS, "_built_in", registry._ATTACKS)
    for block in blocks:
        exec(compile(block, str(path), "exec"), {})


@pytest.mark.parametrize("path", [*WITH_CODE, *PAPERS, *ROOT.glob("[AC]*.md")], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize(
    "path", [*PAPERS, *(path for path in DOCS if path.parent == ROOT / "docs")], ids=lambda path: path.name
)
def test_a_page_opens_with_what_its_reader_wants_to_do(path: Path) -> None:
    title, gap, *rest = path.read_text(encoding="utf-8").splitlines()
    assert re.match(r"# \S", title)
    assert gap == ""
    said = rest[: rest.index("")]
    assert not re.search("afterwards|whoever", " ".join(said), flags=re.IGNORECASE)
    assert len(said) <= 2
    assert max(map(len, said)) <= 140


def test_the_reference_of_commands_is_that_of_the_commands() -> None:
    spec = importlib.util.spec_from_file_location("make_commands", ROOT / "docs" / "make_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), "run python docs/make_commands.py"


def source_texts() -> Iterator[tuple[str, str]]:
    """Yield each file of the source and of the tests, with its text on one line: a citation may be broken by a line."""
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        text = re.sub(r"\s*\n\s*(?:# )?", " ", path.read_text(encoding="utf-8"))
        yield str(path.relative_to(ROOT)), text


def cited_sections() -> Iterator[tuple[str, str, str]]:
    """Pages of the documentation that the source cites by section: file, page and number."""
    for file, text in source_texts():
        for page, first, second in re.findall(r"([\w/]*\w\.md), sections? (\d+)(?: and (\d+))?", text):
            yield from ((file, page, number) for number in (first, second) if number)


@pytest.mark.long
def test_every_section_that_the_source_cites_exists() -> None:
    cited = list(cited_sections())
    assert len(cited) > 30
    for file, page, number in cited:
        there = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).is_file() else ""
        assert f"\n## {number}. " in there, f"{file} cites {page}, section {number}"


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("what section 12 writes", True),
        ("# section 18: the least limit", True),
        ("(section 12 of the methods)", True),
        ("the one-run test (experiments/methods.md, sections 5 and 7)", False),
        ("Dong, Roth and Su (2022), section 2.3", False),
        ("the adversary of the paper's section 3", False),
    ],
)
def test_a_section_without_its_source_is_recognised(text: str, bare: bool) -> None:
    assert bool(BARE_SECTION.search(text)) == bare


@pytest.mark.long
def test_no_section_is_cited_without_its_source() -> None:
    for file, text in source_texts():
        if file != "tests/test_docs.py":
            bare = BARE_SECTION.search(text)
            assert bare is None, f"{file}: {text[max(0, bare.start() - 40) : bare.end() + 20]}"


@pytest.mark.long
def test_every_erratum_that_the_source_cites_is_explained() -> None:
    explained = "\n".join(path.read_text(encoding="utf-8") for path in PAPERS)
    missing = set()
    for file, text in source_texts():
        for names in re.findall(r"[Ee]rrat(?:um|a) ((?:[A-E]\d+(?:, | and )?)+)", text):
            cited = re.findall(r"[A-E]\d+", names)
            missing |= {f"{file}: {name}" for name in cited if not re.search(rf"\b{name}\b", explained)}
    assert not missing
