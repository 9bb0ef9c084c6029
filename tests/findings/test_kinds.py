"""A findings.json of any kind is read into the record of its kind; an unknown kind is one line."""

from __future__ import annotations

import pytest

from miaudit.errors import InputError, MiauditError
from miaudit.errors.entry_points import Offered
from miaudit.findings import kind, kinds
from miaudit.findings.kind import FindingsRecord


def test_each_kind_has_its_record_and_its_name() -> None:
    for name in kinds.BUILT_IN:
        record = kinds.KINDS[name].findings
        assert issubclass(record, FindingsRecord) and getattr(record, "KIND", kinds.AUDIT) == name


@pytest.mark.parametrize("name", ["audits", 3, None, ["audit"]])
def test_an_unknown_kind_is_refused(name: object) -> None:
    with pytest.raises(InputError, match=r"kind: expected audit, disclosure, .*use the version of miaudit"):
        kinds.from_dict({"format": 1, "kind": name})


def test_without_an_installed_report_a_page_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "_DRAWINGS", Offered("miaudit.no-such-group", kind.Drawing, {}))
    with pytest.raises(MiauditError, match="install miaudit with pip"):
        kind._drawing()
