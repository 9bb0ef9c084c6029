"""What a claim depends on: its own file, worlds, the statistics and what they import."""

from __future__ import annotations

from pathlib import Path

import pytest

from validity.sources import ROOT, claim_files, sources


@pytest.mark.long
def test_every_file_of_claims_depends_on_itself_and_on_the_statistics() -> None:
    files = claim_files()
    assert len(files) > 20
    for path in (ROOT / "tests/slow/test_one_run_validity.py", ROOT / "tests/slow/test_table_units.py"):
        found = sources(path)
        assert path.relative_to(ROOT).as_posix() in found
        for name in ("causal/effects", "dp/one_run", "metrics/classical", "auditing/pipeline", "disclosure/bounds"):
            assert f"src/miaudit/{name}.py" in found
        assert "src/miaudit/evidence.py" in found or any(name.startswith("src/miaudit/evidence/") for name in found)
        assert "tests/validity" in found
        assert not any(name.startswith(("src/miaudit/command", "src/miaudit/report")) for name in found)


@pytest.mark.long
def test_worlds_experiments_and_other_rooms_are_followed() -> None:
    assert "tests/worlds/one_run.py" in sources(ROOT / "tests/slow/test_one_run_validity.py")
    assert "tests/worlds/one_run.py" not in sources(ROOT / "tests/slow/test_table_units.py")
    assert "src/miaudit/synthesis/table_attacks/table_audit.py" in sources(ROOT / "tests/slow/test_table_units.py")
    assert "experiments/causal_mia/shift_worlds.py" in sources(ROOT / "tests/slow/test_shift_worlds.py")
    assert "experiments/causal_mia/audits.py" in sources(ROOT / "tests/slow/test_shift_worlds.py")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("import miaudit.io.tables", {"src/miaudit/io/tables.py"}),
        ("from miaudit.io import tables", {"src/miaudit/io/tables.py"}),
        ("def f():\n    from worlds.twins import naive_limits", {"tests/worlds/twins.py", "tests/worlds/__init__.py"}),
    ],
)
def test_imports_are_found_wherever_they_are(tmp_path: Path, statement: str, expected: set[str]) -> None:
    from validity import sources as module

    path = tmp_path / "test_x.py"
    path.write_text(statement)
    found = {file.relative_to(ROOT).as_posix() for file in module._imported(path, ROOT)}
    assert expected <= found
