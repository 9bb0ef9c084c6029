"""Each module has its mirror: src/miaudit/ROOM/module.py is tested by tests/ROOM/test_module.py, but for a list."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
SOURCE = ROOT / "src" / "miaudit"

# Where one file tests several modules: why, that file, and the modules.
THROUGH = (
    ("types and one exception, which every test uses", "test_evidence.py", "arrays io/labels"),
    ("limits in closed form, which every interval is made of", "metrics/test_classical.py", "metrics/proportions"),
    ("scores and digests of evidence", "test_evidence.py", "io/attack_scores io/evidence_digest"),
    ("findings without behaviour: their page shows them", "report/test_matched_section.py", "findings/matched"),
    ("refusals and names, which every room uses", "plugin/test_extending.py", "errors/entry_points errors/on_demand"),
    ("what a command needs is installed, or asked for", "test_install.py", "errors/extras"),
    ("options are doors of the library", "laws/test_doors.py", "errors/options errors/checks"),
    ("laws of all that is registered or printed", "laws/test_attacks.py", "attacks/registry"),
    ("laws of all that is registered or printed", "laws/test_metrics.py", "metrics/definition"),
    ("laws of all that is registered or printed", "laws/test_limits.py", "metrics/rounding"),
    ("parts of a plan, of findings and of a file", "auditing/test_plan.py", "auditing/headline"),
    ("parts of a plan, of findings and of a file", "findings/test_audit.py", "findings/metric"),
    (
        "parts of a plan, of findings and of a file",
        "config/test_target.py",
        "config/data_section config/shadow_section",
    ),
    ("a bundle is made, shared and read as a whole", "bundle/test_bundle.py", "bundle/contents bundle/recording"),
    ("parts of the files of sealed coins", "io/test_sealed_coins.py", "io/agreed_plan io/score_digests"),
    ("a signature is tested by what a bundle's owner signs", "bundle/test_signature.py", "io/signature"),
    (
        "findings without behaviour: their page shows them",
        "report/test_bundle_page.py",
        "findings/verification",
    ),
    ("findings without behaviour: their page shows them", "report/test_disclosure_page.py", "findings/disclosure"),
    ("findings without behaviour: their page shows them", "report/test_disclosure_page.py", "defences/findings"),
    (
        "findings without behaviour: their page shows them",
        "report/test_table_page.py",
        "findings/table findings/fidelity",
    ),
    ("what an accountant adds up", "dp/test_accounting.py", "dp/loss_distribution dp/sampling_bounds"),
    ("the steps of zero-run bounds", "dp/zero_run/test_bounds.py", "dp/zero_run/audit"),
    ("the interval of an average over records", "disclosure/test_groups.py", "disclosure/intervals"),
    ("the command shows what it makes", "command/test_demo.py", "collect/demo"),
    (
        "the parts of a training, which is compared whole with slow twins",
        "models/test_train.py",
        "models/loop models/train_config",
    ),
    (
        "what a command reads and how it runs, through fits",
        "models/test_command.py",
        "jobs/program models/script_files",
    ),
    ("what a target is", "collect/test_campaign.py", "models/protocol"),
    ("what becomes of jobs", "jobs/test_executor.py", "jobs/outcome"),
    ("what a training is fixed by", "models/test_shadow.py", "models/fits"),
    ("a section of an audit's file", "config/test_audit.py", "config/privacy config/audit_keys"),
    (
        "what targets are made of",
        "models/test_targets.py",
        "models/torch_target models/outputs",
    ),
    ("what a campaign says of its records", "collect/test_run_campaign.py", "collect/rare_classes"),
    ("signals by the kind of outputs", "attacks/test_output_kinds.py", "attacks/regression"),
    ("measures by name", "config/test_disclosure.py", "defences/registry"),
    ("the parts of a command: what it prints and writes", "command/test_audit.py", "command/results"),
    ("how a command shows its options", "command/test_program.py", "command/options"),
    (
        "from files to a release: every stage is seen in what is published",
        "synthesis/generators/test_publication.py",
        "config/synthesise findings/release report/synthesis_page synthesis/generators/release_request "
        "synthesis/generators/synthesis_findings",
    ),
    (
        "notes on an audit, seen in its findings",
        "synthesis/table_attacks/test_table_audit.py",
        "synthesis/table_attacks/table_notes",
    ),
    (
        "a network is what training returns",
        "synthesis/generators/test_training.py",
        "synthesis/generators/generator synthesis/generators/vae_generator synthesis/generators/private_tables",
    ),
    ("layers, by the gradients of whole networks", "synthesis/generators/test_vae.py", "synthesis/generators/layer"),
    ("a recipe is what the door settles", "synthesis/generators/test_fitting.py", "synthesis/generators/recipe"),
    (
        "options of tables, by what is planned",
        "synthesis/generators/test_tables_plan.py",
        "synthesis/generators/tables_config",
    ),
    (
        "options of training",
        "synthesis/generators/test_training.py",
        "synthesis/generators/generator_config",
    ),
    (
        "the attack is tested from sets to its bound",
        "synthesis/retraining_attack/test_membership.py",
        "synthesis/retraining_attack/attack_bound synthesis/retraining_attack/heldout "
        "synthesis/retraining_attack/split_by_set",
    ),
    ("one of the features", "synthesis/retraining_attack/test_features.py", "synthesis/retraining_attack/closeness"),
    ("the number of guesses of later runs", "dp/test_several_runs.py", "dp/earlier_runs"),
    ("one run in its four orders, beside twins", "dp/test_ranking.py", "dp/ranked_run"),
    ("charts, drawn with their page", "report/test_disclosure_page.py", "report/defence_charts"),
    ("findings without behaviour", "auditing/test_several_runs.py", "findings/several_runs"),
    ("findings without behaviour", "auditing/test_fair_coins.py", "findings/inclusion"),
    ("findings without behaviour", "collect/test_extraction.py", "findings/extraction"),
    ("findings without behaviour", "auditing/test_usage.py", "findings/usage"),
    ("what is counted, seen in the findings", "collect/test_extraction.py", "collect/extraction_units"),
    ("charts, drawn with their page", "report/test_table_page.py", "report/fidelity_charts"),
)


def modules() -> set[str]:
    found = {path.relative_to(SOURCE).with_suffix("").as_posix() for path in SOURCE.rglob("*.py")}
    return {name for name in found if not name.rpartition("/")[2].startswith("__")}


def mirror(module: str) -> Path:
    room, _, name = module.rpartition("/")
    return TESTS / room / f"test_{name}.py"


def listed() -> dict[str, str]:
    return {module: where for _, where, names in THROUGH for module in names.split()}


def test_each_module_has_its_mirror() -> None:
    without = {module for module in modules() if not mirror(module).is_file()}
    assert sorted(without - set(listed())) == []


@pytest.mark.long
def test_the_list_names_modules_without_a_mirror_and_files_that_test_them() -> None:
    for module, where in listed().items():
        assert module in modules(), module
        assert not mirror(module).is_file(), module
        assert (TESTS / where).is_file(), where


def named() -> list[tuple[str, str, str]]:
    """Test files, and tests of them, that a document names: of the document, the file and the test."""
    found = []
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "experiments").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for path, test in re.findall(r"(?<![\w/])((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?", text):
            found.append((page.name, path.removeprefix("tests/"), test))
    return found


@pytest.mark.long
@pytest.mark.parametrize(("page", "path", "test"), sorted(set(named())))
def test_a_test_that_a_document_names_is_there(page: str, path: str, test: str) -> None:
    body = ast.parse((TESTS / path).read_text(encoding="utf-8")).body
    assert not test or test in {part.name for part in body if isinstance(part, ast.FunctionDef)}, page
