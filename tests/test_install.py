"""What an installation weighs and what importing it loads."""

from __future__ import annotations

import gzip
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import miaudit

FROZEN = Path(__file__).parent / "frozen" / "files" / "findings"
HEAVY = ("torch", "sklearn", "altair", "vl_convert", "polars", "pydantic", "scipy.stats", "typer", "rich", "jinja2")


@pytest.mark.long
def test_importing_loads_only_what_is_needed() -> None:
    code = f"""
import sys, miaudit
print("numpy" in sys.modules)
from miaudit import *
print([m for m in {HEAVY!r} if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "[]"]


def test_names_are_loaded_when_asked_for_and_are_all_that_is_listed() -> None:
    assert dir(miaudit) == miaudit.__all__
    assert all(getattr(miaudit, name) is not None for name in miaudit.__all__)
    assert miaudit.causal.propensity.fit is importlib.import_module("miaudit.causal.propensity").fit
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        miaudit.nothing  # noqa: B018


def test_no_name_of_a_package_is_hidden_by_a_module_below_it() -> None:
    for path in Path(miaudit.__file__).parent.rglob("__init__.py"):
        name = ".".join(("miaudit", *path.relative_to(Path(miaudit.__file__).parent).parts[:-1]))
        homes = getattr(importlib.import_module(name), "_HOMES", {})
        assert not [key for key in homes if (path.parent / f"{key}.py").exists()], name


@pytest.mark.thorough
@pytest.mark.long
def test_findings_are_drawn_though_nothing_loaded_the_report(tmp_path: Path) -> None:
    code = """
import sys
from miaudit.findings.audit import Findings
assert "miaudit.report.kinds" not in sys.modules
found = Findings.read(sys.argv[1])
found.to_html("page.html")
assert found._repr_html_()
"""
    text = gzip.decompress((FROZEN / "one-run.json.gz").read_bytes())
    (tmp_path / "findings.json").write_bytes(text)
    subprocess.run([sys.executable, "-c", code, "findings.json"], cwd=tmp_path, check=True)
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.long
def test_the_statistics_work_where_torch_cannot_be_imported() -> None:
    code = """
import sys
sys.modules["torch"] = None
import numpy as np, miaudit as ma
rng = np.random.default_rng(0)
member = rng.random(500) < 0.5
ma.audit(ma.Evidence(score=rng.normal(size=500), member=member, design="one-run"), rng=rng).to_json()
import miaudit.config.audit, miaudit.collect.demo, miaudit.auditing.power, miaudit.report.audit_page
print("works")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "works"


def test_the_core_install_is_at_most_600_megabytes() -> None:
    seen: dict[str, int] = {}

    def weigh(name: str) -> None:
        if name in seen:
            return
        distribution = importlib.metadata.distribution(name)
        seen[name] = sum(
            path.stat().st_size
            for file in distribution.files or ()
            if (path := Path(str(distribution.locate_file(file)))).is_file()
        )
        for requirement in distribution.requires or ():
            if ";" in requirement and "extra" in requirement.split(";", 1)[1]:
                continue
            needed = re.match(r"[A-Za-z0-9._-]+", requirement)
            assert needed is not None
            try:
                weigh(needed.group().lower())
            except importlib.metadata.PackageNotFoundError:
                continue  # for another platform or Python

    weigh("miaudit")
    assert {"numpy", "scipy", "polars", "altair", "vl-convert-python"} <= set(seen)
    assert not any(name.startswith(("torch", "nvidia")) for name in seen)
    assert sum(seen.values()) <= 600e6, {name: size // 10**6 for name, size in seen.items() if size > 5e6}
