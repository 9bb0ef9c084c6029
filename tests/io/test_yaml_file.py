"""YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.test_audit import described
from miaudit.config import audit as audit_config
from miaudit.config.section import Section
from miaudit.errors import InputError
from miaudit.io.yaml_file import read_yaml


def test_aliases_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    path = described(tmp_path, "model: &m {name: x}\nreporting: *m")
    with pytest.raises(InputError, match="line 3: an alias"):
        audit_config.read(path)


def test_words_and_dates_without_quotation_marks_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "member: no\ncategories: [NO, yes, on, off]\nunit: 2024-01-01\nno: true\nrate: 1e-5\nother: False\n"
    )
    found = read_yaml(path, "config")
    assert found == {
        "member": "no",
        "categories": ["NO", "yes", "on", "off"],
        "unit": "2024-01-01",
        "no": True,
        "rate": 1e-5,
        "other": False,
    }


class Switch(Section):
    """A section with one key of true or false."""

    ready: bool = False


@pytest.mark.parametrize(("word", "value"), [("yes", True), ("on", True), ("no", False), ("off", False)])
def test_where_true_or_false_is_wanted_the_words_still_mean_it(word: str, value: bool, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"ready: {word}\n")
    assert Switch.model_validate(read_yaml(tmp_path / "c.yaml", "config")).ready is value
