"""Sections of a configuration file."""

import pytest

from miaudit.config.audit import AuditConfig


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("evaluation", "seed", True),
        ("evaluation", "components", True),
        ("attack", "n_bootstrap", False),
        ("attack", "fpr_targets", [0.1, True]),
        ("reporting", "row_level", True),
        ("reporting", "threshold_for_concern", True),
        ("reporting", "raw_only", 1),
        ("reporting", "raw_only", "yes"),
        ("privacy", "delta", False),
        ("privacy", "margin", True),
        ("privacy", "bounds", 0),
    ],
)
def test_true_is_no_number_and_a_number_is_not_true(section: str, key: str, value: object) -> None:
    content: dict[str, dict[str, object]] = {"evaluation": {"table_path": "t.npz", "design": "zero-run"}}
    content.setdefault(section, {})[key] = value
    with pytest.raises(ValueError, match=r"expected (a number|true or false), received"):
        AuditConfig.model_validate(content)
