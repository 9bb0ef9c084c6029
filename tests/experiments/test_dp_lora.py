"""experiments/dp_lora in its smallest form: a right training is not refuted, one without clipping is, by the steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "experiments" / "dp_lora" / "run.py"
DATA = ROOT.parent / "shared" / "data"
TEXTS = DATA / "wikimia" / "wikimia_32.jsonl"


@pytest.mark.data
@pytest.mark.skipif(not TEXTS.is_file(), reason=f"{TEXTS} is not there")
@pytest.mark.slow
@pytest.mark.long
def test_a_right_training_stands_and_one_without_clipping_falls(tmp_path: Path) -> None:
    for library in ("torch", "transformers", "peft", "opacus", "dp_accounting"):
        pytest.importorskip(library, reason=f"an extra: {library}")
    command = [sys.executable, SCRIPT, "--data", DATA, "--form", "tiny", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {(row["level"], row["case"]): row for row in json.loads((tmp_path / "found.json").read_text())["cases"]}
    for level in ("record", "user"):
        for each in found[level, "as claimed"]["found"].values():
            assert {one["status"] for one in each.values()} <= {"not-refuted", "not-testable"}
    broken = found["record", "no clipping"]
    assert {one["status"] for one in broken["found"]["steps"].values()} == {"refuted"}
    assert broken["found"]["steps"]["1"]["upper"] == pytest.approx(2.0, rel=0.01)

    # the files as the command reads them: the accountant's epsilon stands beside the bound, and the claim is refuted
    runs = sorted(Path(broken["folder"]).glob("steps-run*.npz"))
    asked = [*runs, "--design", "one-run", "--mechanism", Path(broken["folder"]) / "claim.yaml", "--delta", "1e-5"]
    asked += ["--guesses", "schedule"]
    said = subprocess.run(
        [sys.executable, "-m", "miaudit", "audit", *asked, "--json"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 3, said.stderr
    claim = json.loads(said.stdout)["claim"]
    assert claim["status"] == "refuted" and claim["lower"] == broken["found"]["steps"]["2"]["lower"] > claim["upper"]

    # once more, nothing is trained again
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and again.stderr == ""


@pytest.mark.thorough
@pytest.mark.long
def test_clipping_is_of_units_and_the_sum_is_what_it_says() -> None:
    """The clipped sum over users against a plain loop of gradients, one document at a time."""
    for library in ("torch", "transformers", "peft", "opacus"):
        pytest.importorskip(library, reason=f"an extra: {library}")
    import torch
    import transformers

    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import private_lora
    finally:
        sys.path.remove(str(SCRIPT.parent))
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    net = private_lora.adapted(transformers.GPT2LMHeadModel(config), 2, 0)
    for p in net.parameters():
        if p.requires_grad:  # B begins at 0, which would hide the gradients of A
            torch.nn.init.normal_(p, std=0.2)
    ids, users = torch.randint(0, 40, (7, 8)), np.array([0, 0, 1, 1, 1, 2, 3])
    learned = [p for p in net.parameters() if p.requires_grad]
    each = []
    for one in ids:
        net.zero_grad()
        net(one[None]).sum().backward()
        each.append(torch.cat([p.grad.flatten() for p in learned]))
    net.zero_grad()
    means = [torch.stack([each[i] for i in np.flatnonzero(users == user)]).mean(0) for user in range(4)]
    clip = float(torch.stack(means).norm(dim=1).median())  # some are clipped, some are not
    wanted = sum(mean * min(1.0, clip / float(mean.norm())) for mean in means)
    found = private_lora._clipped_sum(net, ids, users, clip, len(each[0]))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found, sum(means), atol=1e-3)  # the control: without clipping it is another
