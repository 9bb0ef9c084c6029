"""YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.test_audit import described
from miaudit.config import audit as audit_config
from miaudit.errors import InputError


def test_aliases_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    path = described(tmp_path, "model: &m {name: x}\nreporting: *m")
    with pytest.raises(InputError, match="line 3: an alias"):
        audit_config.read(path)
