"""The commands on good input: exit codes, streams, files."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.findings.audit import Findings
from miaudit.metrics.rounding import lower_text, upper_text

Run = Callable[..., tuple[int, str, str]]
LOCATION30 = Path(__file__).parents[3] / "shared" / "data" / "mia_scores_location30" / "location30_mia_scores.npz"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path: Path, shift: float, n: int = 2000, **more: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    member = np.arange(n) % 2 == 0
    np.savez(path, score=rng.normal(size=n) + shift * member, member=member, **more)


def text_of(page: Path) -> str:
    """The page but for the bundled library and the drawings, whose inner names count up within a process."""
    text = re.sub(r"<script(?![^>]*json)[^>]*>.*?</script>", "", page.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"data:image/svg[^\"']*|<svg.*?</svg>", "", text, flags=re.S)


def audit(*options: str) -> list[str]:
    return ["audit", "t.npz", "--score", "score", "--member", "member", "--design", "one-run", *options]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("shift", "code", "status"), [(0.0, 0, "clear"), (2.0, 3, "flagged"), (0.6, 4, "inconclusive")]
)
def test_the_exit_code_is_the_verdict(shift: float, code: int, status: str, place: Path, run: Run) -> None:
    save(place / "t.npz", shift)
    found = run(*audit())
    assert found[0] == code
    verdict = json.loads((place / "results/audit/findings.json").read_text())["verdict"]
    assert verdict["status"] == status
    assert verdict["exit_code"] == code
    assert found[1].startswith(verdict["text"])
    words = {0: "Within the limits: ", 3: "Concern: ", 4: "Not answered (inconclusive): "}
    assert found[1].startswith(words[code])
    assert "no leakage" not in (place / "results/audit/report.html").read_text().lower()


def test_losses_without_their_signal_are_no_reason_to_be_calm(place: Path, run: Run) -> None:
    save(place / "t.npz", -1.2)
    code, out, _ = run(*audit("--no-bounds", "--json"))
    assert code == 4
    verdict = json.loads(out)["verdict"]
    assert verdict["status"] == "not-testable"
    assert "point the wrong way" in verdict["text"].split(". ")[0]
    assert "--signal loss" in verdict["text"].split(". ")[0]
    code, out, _ = run(*audit("--no-bounds", "--json", "--signal", "loss"))  # the option that it names
    assert code == 3


@pytest.mark.thorough
@pytest.mark.long
def test_an_undeclared_design_is_no_answer_until_it_is_declared(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    save(place / "t.npz", 2.0, x=rng.normal(size=2000))
    options = ["audit", "t.npz", "--score", "score", "--member", "member", "--covariates", "x"]
    code, out, _ = run(*options)
    assert code == 4
    assert out.startswith("Not answered (undeclared): ")
    assert "If membership was decided at random, the verdict would be: Concern" in out
    assert "AUC of the covariates alone" in out
    page = text_of(place / "results/audit/report.html")
    assert "AUC of the covariates alone" in page
    alone = Findings.read(place / "results/audit/findings.json").covariates_alone  # follows its schema
    assert alone is not None
    assert alone.low < 0.5  # cross-fitted on coins it lies a little below one half
    assert run(*options, "--design", "one-run", "--overwrite")[0] == 3


@pytest.mark.long
def test_zero_run_evidence_gets_no_verdict_from_raw_numbers(place: Path, run: Run) -> None:
    save(place / "t.npz", 3.0)
    code, out, _ = run("audit", "t.npz", "--score", "score", "--member", "member", "--design", "zero-run")
    assert code == 4
    assert "raw, not causal" in out
    found = json.loads((place / "results/audit/findings.json").read_text())
    assert found["verdict"]["status"] == "not-testable"
    assert found["bounds"] == []


ALWAYS_CLEAR = ("--primary-metric", "auc", "--threshold-for-concern", "0.999")


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("shift", "claim", "verdict", "code", "status"),
    [
        (2.0, ("--claim-mu", "0.2"), ALWAYS_CLEAR, 3, "refuted"),
        (2.0, ("--claim-epsilon", "0.5"), ALWAYS_CLEAR, 3, "refuted"),
        (2.0, ("--claim-mu", "5"), ALWAYS_CLEAR, 0, "not-refuted"),
        (2.0, ("--claim-mu", "5"), (), 3, "not-refuted"),  # the verdict's own concern stays
        (0.0, ("--claim-epsilon", "8"), (), 0, "not-refuted"),
        (2.0, ("--claim-mu", "0.2", "--guesses", "exploratory"), ALWAYS_CLEAR, 4, "not-testable"),
    ],
)
def test_a_claim_has_a_part_in_the_exit_code(
    shift: float, claim: tuple[str, ...], verdict: tuple[str, ...], code: int, status: str, place: Path, run: Run
) -> None:
    save(place / "t.npz", shift)
    found, out, _ = run(*audit(*claim, *verdict))
    findings = json.loads((place / "results/audit/findings.json").read_text())
    assert found == findings["exit_code"] == code
    assert findings["claim"]["status"] == status
    first, *rest = out.splitlines()[:5]
    assert first.startswith({0: "Within the limits: ", 3: "Concern: ", 4: "Not answered (not testable): "}[code])
    _, _, said = findings["claim"]["text"].partition(": ")
    assert any(said in line for line in (first, *rest))
    assert (said in first) is (code != findings["verdict"]["exit_code"])  # what decides the exit code comes first


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("claim", "code"), [("{mu: 0.2}", 3), ("{mu: 5}", 0), ("{epsilon: 0.5, delta: 0}", 3)])
def test_a_claim_in_a_configuration(claim: str, code: int, place: Path, run: Run) -> None:
    save(place / "t.npz", 2.0)
    (place / "c.yaml").write_text(
        "evaluation: {table_path: t.npz, score: score, member: member, design: one-run}\n"
        f"reporting: {{primary_metric: auc, threshold_for_concern: 0.999}}\nprivacy: {{claim: {claim}}}\n"
    )
    assert run("run", "c.yaml")[0] == code
    undeclared = (place / "c.yaml").read_text().replace(", design: one-run", "")
    (place / "c.yaml").write_text(undeclared)
    found, out, _ = run("run", "c.yaml", "--overwrite")
    assert found == 4
    assert out.startswith("Not answered (undeclared): ")
    assert "Not testable" in out
    assert "declare the design" in out


@pytest.mark.thorough
@pytest.mark.long
def test_bounds_stand_in_json_and_in_the_summary(place: Path, run: Run) -> None:
    save(place / "t.npz", 2.0)
    found = json.loads(run(*audit("--json", "--delta", "1e-6", "--guesses", "200"))[1])
    assert [(b["parameter"], b["delta"], b["guesses"]) for b in found["bounds"]] == [
        ("mu", 0.0, 200),
        ("epsilon", 1e-6, 200),
    ]
    assert found["claim"] is None
    assert found["plan"]["bounds"]["delta"] == 1e-6
    mu = found["bounds"][0]
    assert 0.5 < mu["value"] <= mu["reachable"]
    _, out, _ = run(*audit("--delta", "1e-6", "--guesses", "200"))
    line = (
        f"  mu >= {lower_text(mu['value'])} (95%; {mu['correct']} of 200 guesses right; "
        f"at most {upper_text(mu['reachable'])} could have been shown)"
    )
    assert line in out.splitlines()
    assert "at delta = 1e-06" in out
    _, out, _ = run(*audit("--guesses", "exploratory", "--out", "other"))
    assert "mu >= " in out
    assert "exploratory, at no confidence" in out
    code, out, _ = run(*audit("--no-bounds", "--json"))
    assert code == 3
    assert json.loads(out)["bounds"] == json.loads(out)["no_bound"] == []


@pytest.mark.thorough
@pytest.mark.long
def test_a_bound_of_zero_is_nothing_shown(place: Path, run: Run) -> None:
    save(place / "t.npz", 0.0)
    _, out, _ = run(*audit())
    assert "  mu: nothing shown (95%; " in out
    assert "epsilon at delta = 1e-05: nothing shown" in out


@pytest.mark.thorough
@pytest.mark.long
def test_a_mechanism_stands_beside_the_bounds_and_is_the_claim(place: Path, run: Run) -> None:
    save(place / "t.npz", 2.0)
    (place / "m.yaml").write_text("kind: laplace\nnoise: 5e0\n")
    code, out, _ = run(*audit("--mechanism", "m.yaml", *ALWAYS_CLEAR))
    claim = json.loads((place / "results/audit/findings.json").read_text())["claim"]
    assert code == 3
    assert claim["value"] == claim["upper"] <= 0.2
    assert claim["gap"] < 0
    assert "what was run is not what was described" in out


def zero_run_table(path: Path, shift: float, memorised: float, n: int = 1500) -> None:
    """Members and non-members that differ in age by ``shift`` and in what was memorised."""
    rng = np.random.default_rng(4)
    member = rng.random(n) < 0.5
    age, dose = rng.normal(size=n) + shift * member, rng.normal(size=n)
    score = memorised * member + 0.5 * age + rng.normal(size=n)
    rows = zip(score, member.astype(int), age, dose, strict=True)
    path.write_text("score,member,age,dose\n" + "".join(f"{s},{m},{a},{d}\n" for s, m, a, d in rows))


ZERO_RUN = (
    "audit",
    "t.csv",
    "--score",
    "score",
    "--member",
    "member",
    "--covariates",
    "age,dose",
    "--design",
    "zero-run",
)


@pytest.mark.thorough
@pytest.mark.long
def test_a_zero_run_audit_from_a_table_to_a_refuted_claim(place: Path, run: Run) -> None:
    zero_run_table(place / "t.csv", 0.5, 3.0)
    code, out, err = run(*ZERO_RUN, "--claim-mu", "0.2", "--primary-metric", "auc", "--threshold-for-concern", "0.999")
    assert (code, err) == (3, "")
    found = json.loads((place / "results/audit/findings.json").read_text())
    assert found["verdict"]["status"] == "clear"
    assert found["claim"]["status"] == "refuted"
    assert found["challenge"]["rejected"] is False
    assert [(b["parameter"], b["delta"]) for b in found["bounds"]] == [("mu", 0), ("epsilon", 1e-5), ("epsilon", 0)]
    assert out.startswith("Concern: the claim is refuted: 0.2-Gaussian DP")
    for text in ("mu >= ", "stood the challenge", "hajek"):
        assert text in out
    again = json.loads(run(*ZERO_RUN, "--json", "--correction", "composition", "--margin", "0.2")[1])
    assert again["plan"]["bounds"]["correction"] == "composition"
    assert again["bounds"][0]["value"] != found["bounds"][0]["value"]


@pytest.mark.long
def test_a_zero_run_audit_of_disjoint_populations_is_refused_without_a_bound(place: Path, run: Run) -> None:
    zero_run_table(place / "t.csv", 8.0, 3.0)
    code, out, _ = run(*ZERO_RUN, "--claim-mu", "0.2")
    assert code == 4
    found = json.loads((place / "results/audit/findings.json").read_text())
    assert found["verdict"]["status"] == "refused"
    assert found["claim"]["status"] == "not-testable"
    assert found["bounds"] == []
    assert found["no_bound"]
    assert ">=" not in out
    assert "No lower bound on privacy parameters" in out


@pytest.mark.thorough
@pytest.mark.long
def test_propensities_that_lose_the_challenge_are_said_first(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    x = rng.uniform(-1, 1, (n, 2))
    member = rng.random(n) < np.where(x[:, 0] * x[:, 1] > 0, 0.8, 0.2)  # no line in the covariates tells this
    np.savez(place / "t.npz", score=rng.normal(size=n) + 2 * member, member=member, x=x)
    options = ("--covariates", "x", "--claim-mu", "0.1")
    code, out, _ = run("audit", "t.npz", "--score", "score", "--member", "member", "--design", "zero-run", *options)
    found = json.loads((place / "results/audit/findings.json").read_text())
    assert found["challenge"]["rejected"] is True
    assert out.startswith(("Concern: ", "Within the limits: ", "Not answered ("))
    assert found["challenge"]["text"] in out.splitlines()[1:3]
    assert found["bounds"] == []
    assert found["claim"]["status"] == "not-testable"
    assert code == found["exit_code"]


@pytest.mark.long
def test_json_is_alone_on_standard_output_and_writes_nothing(place: Path, run: Run) -> None:
    save(place / "t.npz", 1.0)
    code, out, err = run(*audit("--json"))
    assert (code, err) == (3, "")
    Findings.from_dict(json.loads(out))
    assert [path.name for path in place.iterdir()] == ["t.npz"]
    again = run(*audit("--json"))
    assert again[1] == out
    assert run(*audit("--json", "--seed", "1"))[1] != out  # the seed is part of the findings


def test_scores_that_look_like_losses_are_remarked_upon(place: Path, run: Run) -> None:
    save(place / "t.npz", -1.0)
    _, _, err = run(*audit("--json"))
    assert err.startswith("miaudit: note: ")
    assert "--signal loss" in err
    _, _, err = run(*audit("--json", "--signal", "loss"))
    assert err == ""


@pytest.mark.long
def test_units_and_groups_and_rows(place: Path, run: Run) -> None:
    n = 1200
    save(place / "t.npz", 1.0, n, person=np.arange(n) // 6 * 2 + np.arange(n) % 2, site=np.arange(n) % 3)
    code, out, _ = run(*audit("--json", "--unit", "person", "--group", "site", "--show-rows", "2"))
    found = json.loads(out)
    assert code in (0, 3, 4)
    assert found["counts"]["of"] == "units"
    assert found["counts"]["members"] == 200
    assert found["counts"]["member_records"] == 600
    assert any("units" in line for line in found["assumptions"])
    assert [g["group"] for g in found["groups"]] == ["0", "1", "2"]
    assert len(found["rows"]) == 2
    plain = json.loads(run(*audit("--json"))[1])
    assert plain["rows"] == []
    by_name = {m["name"]: m for m in plain["metrics"]}
    for metric in found["metrics"]:
        if metric["name"].startswith("tpr"):
            continue
        assert metric["value"] == by_name[metric["name"]]["value"]


@pytest.mark.long
def test_several_scores_are_corrected_for(place: Path, run: Run) -> None:
    save(place / "t.npz", 0.5, other=np.random.default_rng(5).normal(size=2000))
    _, out, _ = run("audit", "t.npz", "--score", "score,other", "--member", "member", "--json")
    several = json.loads(out)
    one = json.loads(run("audit", "t.npz", "--score", "score", "--member", "member", "--json")[1])
    assert [s["score"] for s in several["scores"]] == ["score", "other"]
    assert any("Bonferroni" in text for text in several["corrections"])
    for wide, narrow in zip(several["metrics"], one["metrics"], strict=True):
        assert wide["value"] == narrow["value"]
        assert wide["high"] >= narrow["high"]
        assert wide["low"] <= narrow["low"]
    _, out, _ = run(
        "audit", "t.npz", "--score", "score,other", "--member", "member", "--json", "--headline", "exploratory"
    )
    assert json.loads(out)["verdict"]["exploratory"] is True
    _, out, _ = run("audit", "t.npz", "--score", "score,other", "--member", "member", "--json", "--headline", "other")
    assert json.loads(out)["scores"][0]["score"] == "other"


@pytest.mark.long
def test_evidence_that_was_saved_needs_no_names(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    Evidence(score=rng.normal(size=500), member=rng.random(500) < 0.5, design="one-run").save("e.parquet")
    code, out, _ = run("audit", "e.parquet", "--json")
    assert code in (0, 4)
    assert json.loads(out)["design"] == "one-run"


def test_without_figures_the_audit_is_the_same(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from miaudit.report import audit_charts, drawing

    save(place / "t.npz", 2.0)
    monkeypatch.setattr(audit_charts, "charts", lambda *_: pytest.fail("a chart was built"))
    monkeypatch.setattr(drawing, "prepare", lambda: pytest.fail("a renderer was started"))
    code, _, err = run(*audit("--no-figures", "--out", "plain"))
    assert code == 3 and err == ""
    assert sorted(path.name for path in (place / "plain").iterdir()) == ["findings.json", "report.html"]
    assert "run without figures" in (place / "plain" / "report.html").read_text()
    file = "evaluation: {table_path: t.npz, score: score, member: member, design: one-run, output_dir: filed}"
    for reporting, words in (("{figures: false}", ()), ("{}", ("--no-figures",))):
        (place / "c.yaml").write_text(f"{file}\nreporting: {reporting}\n")
        assert run("run", "c.yaml", *words, "--overwrite")[0] == 3
        typed, filed = (json.loads((place / name / "findings.json").read_text()) for name in ("plain", "filed"))
        assert typed.pop("repeat") != filed.pop("repeat")
        assert typed == filed
        assert not (place / "filed" / "figures").exists()


@pytest.mark.thorough
@pytest.mark.long
def test_an_earlier_audit_is_not_replaced_unasked(place: Path, run: Run) -> None:
    save(place / "t.npz", 1.0)
    run(*audit("--out", "out"))
    before = (place / "out/findings.json").read_bytes()
    (place / "out/notes.txt").write_text("mine")
    code, _, err = run(*audit("--out", "out", "--seed", "4"))
    assert code == 1
    assert "--overwrite" in err
    assert (place / "out/findings.json").read_bytes() == before
    code, _, _ = run(*audit("--out", "out", "--seed", "4", "--overwrite"))
    assert code == 3
    assert (place / "out/findings.json").read_bytes() != before
    assert (place / "out/notes.txt").read_text() == "mine"


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("what", "word"), [(("demo",), b"training"), (ZERO_RUN, b"%")], ids=["demo", "zero"])
def test_progress_shows_on_a_terminal_and_leaves_nothing_on_standard_output(
    what: tuple[str, ...], word: bytes, place: Path
) -> None:
    zero_run_table(place / "t.csv", 0.5, 0.0)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "miaudit", *what, "--json"], cwd=place, stdout=subprocess.PIPE, stderr=follower
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the terminal closes with the process
            break
        if not chunk:
            break
        shown += chunk
    out, _ = process.communicate(timeout=120)
    os.close(leader)
    assert process.returncode in (0, 4)
    assert word in shown
    json.loads(out)


@pytest.mark.thorough
@pytest.mark.long
def test_killed_half_way_it_leaves_no_results(place: Path) -> None:
    save(place / "t.npz", 1.0, 200_000)
    command = [sys.executable, "-m", "miaudit", *audit("--n-bootstrap", "100000", "--out", "out")]
    process = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True)
    time.sleep(6)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "miaudit: interrupted; no results were written\n"
    process = subprocess.Popen(command, cwd=place)
    time.sleep(2)
    process.kill()
    process.wait(timeout=60)
    assert [path.name for path in place.iterdir()] == ["t.npz"]


@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not LOCATION30.is_file(), reason=f"needs {LOCATION30}")
@pytest.mark.parametrize(
    ("options", "auc"),
    [
        (["--score", "target_loss", "--signal", "loss"], 0.8698),
        (["--score", "target_loss_memguard", "--signal", "loss"], 0.6900),
        (["--score", "target_logits", "--signal", "logits", "--labels", "target_label"], 0.8698),
        (["--score", "target_prob_memguard", "--signal", "probabilities", "--labels", "target_label"], 0.6900),
    ],
)
def test_the_published_scores_of_location30(options: list[str], auc: float, place: Path, run: Run) -> None:
    command = ["audit", str(LOCATION30), *options, "--member", "target_member", "--design", "one-run", "--json"]
    code, out, _ = run(*command)
    assert code in (0, 3, 4)
    found = next(m for m in json.loads(out)["metrics"] if m["name"] == "auc")
    assert round(found["value"], 4) == auc
    assert found["low"] < auc < found["high"]
    assert found["high"] - found["low"] < 0.06


@pytest.mark.long
def test_an_average_effect_in_small_units_keeps_its_digits(place: Path, run: Run) -> None:
    rng = np.random.default_rng(3)
    member = np.arange(400) % 2 == 0
    np.savez("small.npz", score=1e-7 * (rng.normal(size=400) + member), member=member)
    _, out, _ = run("audit", "small.npz", "--design", "one-run", "--no-bounds", "--out", "small")
    line = next(line for line in out.splitlines() if "(ate)" in line)
    effect = [float(number) for number in re.findall(r"[-\d.]+e-\d+", line)]
    assert len(effect) == 3
    assert effect[1] < 1e-7 < effect[2]


def test_a_csv_with_other_separators_is_recognised(place: Path, run: Run) -> None:
    Path("semi.csv").write_text("s;m\n1;0\n2;1\n", encoding="utf-8")
    code, _, err = run("audit", "semi.csv", "--score", "s", "--member", "m")
    assert (code, err.count("\n")) == (1, 1)
    assert "separated by ';'; save it with commas" in err
    code, _, err = run("audit", "semi.csv", "--threshold-for-concern", "five")
    assert (code, "or 5%" in " ".join(err.replace("│", " ").split())) == (2, True)


@pytest.mark.long
def test_a_category_of_text_is_corrected_for(place: Path, run: Run) -> None:
    rng = np.random.default_rng(5)
    north = rng.random(1200) < 0.5
    member = rng.random(1200) < np.where(north, 0.7, 0.3)
    columns = {"s": rng.normal(size=1200) + north, "m": member, "site": np.where(north, "north", "süd")}
    Path("t.csv").write_text(
        "s,m,site\n" + "\n".join(f"{s},{m:d},{x}" for s, m, x in zip(*columns.values(), strict=True)) + "\n"
    )
    options = ("--score", "s", "--member", "m", "--design", "zero-run", "--covariates", "site", "--no-bounds", "--json")
    code, _, err = run("audit", "t.csv", *options)
    assert code == 1
    assert "name it in categories" in err
    _, out, _ = run("audit", "t.csv", *options, "--categories", "site")
    auc = {m["estimator"]: m for m in json.loads(out)["metrics"] if m["name"] == "auc"}
    assert auc["hajek"]["low"] < 0.5 < auc["hajek"]["high"]
    assert auc["raw"]["low"] > 0.5  # control: the shift between the sites


@pytest.mark.long
def test_a_recorded_command_holds_what_was_assumed(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    member = rng.random(200) < 0.5
    losses = rng.normal(size=200) ** 2 * np.where(member, 0.1, 1)
    np.savez("s.npz", score=losses, in_train=member)
    np.savez("both.npz", train_loss=losses[member], test_loss=losses[~member])

    def command(*options: str) -> str:
        return str(json.loads(run("audit", *options, "--no-bounds", "--json")[1])["repeat"]["command"])

    again = command("s.npz", "--signal", "loss")
    assert again.endswith("--signal loss --no-bounds --json --member in_train --score score")
    code, out, err = run(*again.split()[1:])
    assert code == 4 and not err and json.loads(out)["repeat"]["command"] == again
    again = command("both.npz")
    assert again.startswith("miaudit audit --no-bounds --json --members both.npz --nonmembers both.npz")
    assert run(*again.split()[1:])[2] == ""


def test_naming_the_score_leaves_membership_assumed(place: Path, run: Run) -> None:
    save(place / "t.npz", 1.0)
    code, _, err = run("audit", "t.npz", "--score", "score", "--design", "one-run", "--no-bounds", "--json")
    assert code in (0, 3, 4) and err == "miaudit: assumed: --member member; give it to change that\n"


@pytest.mark.long
def test_a_chance_of_inclusion_thins_the_bounds(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    chance = rng.choice([0.3, 0.8], 2000)
    member = rng.random(2000) < chance
    np.savez("t.npz", score=rng.normal(size=2000) + member, member=member, chance=chance)
    _, out, _ = run(*audit("--inclusion", "chance", "--json"))
    inclusion = json.loads(out)["inclusion"]
    assert (inclusion["lowest"], inclusion["highest"], inclusion["thinned_metrics"]) == (0.3, 0.8, True)
    _, text, _ = run(*audit("--inclusion", "chance", "--out", "a"))
    assert f"{inclusion['remaining']:,} of 2,000 records remain" in text
    assert f"{inclusion['remaining']:,} of 2,000 records remain" in text_of(place / "a/report.html")
    code, out, _ = run(*audit("--inclusion", "0.1", "--json"))  # the control: half of the records are members
    assert code == 4 and json.loads(out)["verdict"]["status"] == "refused"
    for value, message in (("80", "write 0.8 for 80%"), ("nope", "expected a column of t.npz")):
        code, _, err = run(*audit("--inclusion", value))
        assert code == 1 and message in err and err.count("\n") == 1
    code, _, err = run(*audit("--inclusion", "0.8")[:-4], "--design", "multi-run", "--inclusion", "0.8")
    assert code != 0 and "inclusion" in err
