"""One law: every door gives the same verdict on the same evidence, whatever the world and the limits."""

import json

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import miaudit as ma
from miaudit.bundle.verify import verify
from miaudit.command.program import app
from miaudit.defences import findings as defence_findings
from miaudit.defences.compare import ReleaseOption, compare
from miaudit.defences.outputs import AsItIs, LabelOnly
from miaudit.testing import assert_private
from worlds import disclosing

N = 1500


def score_of(world, rng):
    score, member = rng.normal(size=2 * N), np.arange(2 * N) % 2 == 0
    if world == "leak":
        score += member
    elif world == "exposed":
        score[np.flatnonzero(member)[:70]] += 30
    elif world == "weak":
        score += 0.6 * member
    elif world == "inverted":
        score -= member
    elif world == "heavy":
        score = rng.standard_t(2, size=2 * N) + 3 * (member & (rng.random(2 * N) < 0.2))
    return score, member


WORLDS = ("none", "leak", "exposed", "weak", "inverted", "heavy")
LIMITS = (None, {"auc": 0.6, "tpr_at_fpr_0.05": 0.1})
EXPECTED = {"none": "clear", "leak": "flagged", "exposed": "flagged", "inverted": "not-testable"}


def by_python(folder, limits):
    return ma.audit(ma.Evidence.load(folder / "t.npz"), plan=ma.Plan(limits=limits, bounds=None), rng=0).to_dict()


def by_file(folder, limits):
    words = ["audit", str(folder / "t.npz"), "--score", "score", "--member", "member", "--design", "one-run"]
    return by_words([*words, "--no-bounds", "--json", *(f"--limit={k}={v}" for k, v in (limits or {}).items())])


def by_pair(folder, limits):
    sides = ["--members", str(folder / "m.npy"), "--nonmembers", str(folder / "n.npy"), "--signal", "score"]
    words = ["audit", *sides, "--design", "one-run", "--no-bounds", "--json"]
    return by_words([*words, *(f"--limit={k}={v}" for k, v in (limits or {}).items())])


def by_configuration(folder, limits):
    content = {
        "evaluation": {"table_path": "t.npz", "score": "score", "member": "member", "design": "one-run"},
        "privacy": {"bounds": False},
        "reporting": {"limits": limits} if limits else {},
    }
    (folder / "a.yaml").write_text(yaml.safe_dump(content))
    return by_words(["run", str(folder / "a.yaml"), "--json", "--out", str(folder / "results"), "--overwrite"])


def by_words(words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code in (0, 3, 4), found.output
    made = json.loads(found.stdout)
    assert made["exit_code"] == found.exit_code
    return made


DOORS = {"file": by_file, "pair": by_pair, "configuration": by_configuration}


@pytest.fixture(scope="module", params=WORLDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    score, member = score_of(request.param, np.random.default_rng(WORLDS.index(request.param)))
    ma.Evidence(score=score, member=member, design="one-run").save(folder / "t.npz")
    np.save(folder / "m.npy", score[member])
    np.save(folder / "n.npy", score[~member])
    return request.param, folder


def decided(made):
    """What a verdict is: its status, and which limits of which scores are exceeded or open."""
    verdict = made["verdict"]
    return verdict["status"], [(one["limit"], one["outcome"]) for one in verdict["limits"]], made["plan"]["limits"]


@pytest.mark.thorough
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_verdict_of_python(world, limits, door):
    name, folder = world
    own, other = by_python(folder, limits), DOORS[door](folder, limits)
    assert decided(own) == decided(other)
    if name in EXPECTED and limits is None:
        assert own["verdict"]["status"] == EXPECTED[name]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("limits", LIMITS)
def test_the_assertion_and_the_bundle_agree(world, limits, tmp_path):
    _, folder = world
    own = by_python(folder, limits)
    evidence = ma.Evidence.load(folder / "t.npz")
    try:
        code = assert_private(evidence, limits=limits, plan=ma.Plan(bounds=None)).exit_code
    except BaseException as error:  # pytest's own Failed is no Exception
        code = {"concern": 3}.get(str(error).splitlines()[0].removeprefix("assert_private: "), 4)
    assert code == own["exit_code"]
    words = ["audit", str(folder / "t.npz"), "--score", "score", "--member", "member", "--design", "one-run"]
    words += ["--no-bounds", *(f"--limit={k}={v}" for k, v in (limits or {}).items())]
    bundle = tmp_path / "a.zip"
    assert CliRunner().invoke(app, [*words, "--bundle", str(bundle)]).exit_code == own["exit_code"]
    assert verify(bundle).status == "verified"
    said = CliRunner().invoke(app, ["verify", str(bundle)]).stdout
    assert f"The audit says: {own['verdict']['text'][:40]}" in said


@pytest.mark.long
@pytest.mark.parametrize("effect", [0.0, 0.5])
@pytest.mark.parametrize("limits", LIMITS)
def test_a_comparison_of_disclosures_judges_as_an_audit_does(effect, limits):
    models = disclosing.models(effect=effect, seed=3)
    options = [
        ReleaseOption("as-it-is", "output", models, AsItIs()),
        ReleaseOption("label", "output", models, LabelOnly()),
    ]
    comparison = compare(options, fpr_targets=(0.01, 0.05, 0.1), rng=np.random.default_rng(0))
    found = defence_findings.findings(comparison, policy=ma.Plan(limits=limits).policy)
    for measured, option in zip(comparison.measured, found.options, strict=True):
        evidence = ma.Evidence(score=measured.attacked.scores, member=models.member, design="one-run")
        own = ma.audit(evidence, plan=ma.Plan(limits=limits, bounds=None), rng=0).verdict
        words = {"flagged": "exceeded", "clear": "within"}
        assert option.within == words.get(own.status, "open")
        kept = [(one.limit, one.outcome) for one in own.limits]
        assert [(one.limit, one.outcome) for one in option.limits] == kept or own.status == "not-testable"
    assert (found.verdict.status == "flagged") == (found.options[0].within == "exceeded")
    assert all(option.within == "within" for option in found.options if option.recommended)
