"""What is recommended: only what limits support."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from miaudit.defences import findings
from miaudit.defences.advise import advise
from miaudit.defences.calibration import Temperature
from miaudit.defences.compare import DefenceComparison, ReleaseOption, compare
from miaudit.defences.differences import PairedDifference
from miaudit.defences.label_sets import ConformalSet, SetThreshold
from miaudit.defences.noise import OutputNoise
from miaudit.defences.outputs import AsItIs, LabelOnly, TopK
from miaudit.errors import InputError
from miaudit.findings.policy import Policy
from worlds import disclosing


@pytest.fixture(scope="module")
def found() -> DefenceComparison:
    models = disclosing.models(effect=1.0)
    defences = {
        "temperature": Temperature(),
        "label": LabelOnly(),
        "conformal": ConformalSet(0.9),
        "noise": OutputNoise(1.0, fixed=True),
        "full": SetThreshold(0.0),
    }
    options = [ReleaseOption("as-it-is", "output", models, AsItIs())]
    options += [ReleaseOption(name, "output", models, defence) for name, defence in defences.items()]
    weaker = disclosing.models(effect=0.3)
    options.append(ReleaseOption("less fitted", "training", weaker, AsItIs(), "less fitted"))
    return compare(options, rng=np.random.default_rng(0))


@pytest.mark.long
def test_what_helps_is_named_with_its_price_and_what_does_not_is_not(found: DefenceComparison) -> None:
    advice = advise(found)
    effects = {one.name: one.effect for one in advice.judged[1:]}
    assert effects["temperature"] == "not shown"
    assert effects["label"] == effects["conformal"] == effects["noise"] == effects["less fitted"] == "helps"
    assert "temperature" not in advice.recommended
    assert {"label", "conformal"} <= set(advice.recommended)
    assert "full" not in advice.recommended  # it gives nothing away, since it says nothing
    prices = {one.name: one.price for one in advice.judged}
    assert prices["label"] == prices["noise"] == "none"
    assert "points off the AUC" in advice.parts[0]
    assert any("One audited model: 300 members and 300 non-members" in text for text in advice.rests_on)
    assert any("less fitted" in text for text in advice.rests_on)


@pytest.mark.long
def test_the_smallest_estimate_is_not_a_recommendation(found: DefenceComparison) -> None:
    """The same estimates with wider limits: nothing is shown, however small an AUC is."""
    wide = tuple(PairedDifference(d.first, d.second, d.value, d.value - 1, d.value + 1) for d in found.reductions)
    advice = advise(replace(found, reductions=wide))
    assert advice.recommended == ()
    assert advice.text.startswith("No defence is shown to help: of 6 measures, none")
    assert "no proof that none does" in advice.text
    assert all("shown to help" in text for text in advice.parts)


def test_an_attack_that_points_the_wrong_way_is_not_counted_as_help(found: DefenceComparison) -> None:
    """A measure behind which the attack has an AUC of .3 hides nothing: turned round the attack has .7."""
    place = [one.option.name for one in found.measured].index("noise")
    assert advise(found).judged[place].effect == "helps"  # the control
    inverted = replace(found.measured[place].leakage["auc"], value=0.3, low=0.25, high=0.35)
    measured = list(found.measured)
    measured[place] = replace(measured[place], leakage={**measured[place].leakage, "auc": inverted})
    advice = advise(replace(found, measured=tuple(measured)))
    assert advice.judged[place].effect == "not shown"
    assert "noise" not in advice.recommended
    assert any("points the wrong way" in text for text in advice.rests_on)


def test_a_release_whose_attack_points_the_wrong_way_is_not_clear(found: DefenceComparison) -> None:
    released = found.measured[0]
    assert findings.findings(found).verdict.status == "flagged"  # the control: scores the right way round
    one = replace(released, attacked=replace(released.attacked, scores=-released.attacked.scores))
    verdict = findings.findings(replace(found, measured=(one, *found.measured[1:]))).verdict
    assert (verdict.status, verdict.exit_code) == ("not-testable", 4)
    assert "point the wrong way" in verdict.text and "shadow: models" in verdict.text


def test_an_undeclared_release_has_no_answer_but_what_it_would_be(found: DefenceComparison) -> None:
    policy = Policy.of({"auc": 0.52})
    declared, undeclared = (findings.findings(found, policy=policy, declared=d).verdict for d in (True, False))
    assert (declared.status, declared.reason) == ("flagged", None)
    assert (undeclared.status, undeclared.reason, undeclared.exit_code) == ("not-testable", "undeclared", 4)
    assert undeclared.word == "Not answered (undeclared)" and undeclared.text.startswith(undeclared.word)
    assert undeclared.text.endswith(f"would be: {declared.text}")
    assert "design: one-run" in undeclared.text


def test_a_price_that_is_not_known_is_not_bearable(found: DefenceComparison) -> None:
    place = [one.option.name for one in found.measured].index("less fitted") - 1
    costs = list(found.costs)
    costs[place] = PairedDifference(0, place + 1, 0.0, -0.05, 0.05)
    advice = advise(replace(found, costs=tuple(costs)), tolerance=0.02)
    assert advice.judged[place + 1].price == "not shown"
    assert "less fitted" not in advice.recommended
    assert "less fitted is shown to help, but is not shown to cost at most 2% of accuracy" in " ".join(advice.parts)
    assert "less fitted" in advise(replace(found, costs=tuple(costs)), tolerance=0.05).recommended


@pytest.mark.parametrize(("size", "empty", "said"), [(3.85, 0.0, False), (3.7, 0.0, True), (0.1, 0.96, False)])
def test_sets_that_are_nearly_all_full_or_empty_are_not_recommended(
    found: DefenceComparison, size: float, empty: float, said: bool
) -> None:
    measured = list(found.measured)
    place = [one.option.name for one in measured].index("conformal")
    assert measured[place].option.models.classes == 4
    held = replace(measured[place].size, value=size, low=size, high=size)
    measured[place] = replace(measured[place], size=held, empty=empty, full=0.9)
    advice = advise(replace(found, measured=tuple(measured)))
    assert ("conformal" in advice.recommended) is said
    text = next(text for text in advice.parts if "set" in text)
    assert (f"{size:.2f} of 4 labels in a set" in text) is said


@pytest.mark.long
def test_those_that_the_data_do_not_tell_apart_are_named_together() -> None:
    models = disclosing.models(effect=1.0)
    options = [ReleaseOption("as-it-is", "output", models, AsItIs())]
    options += [ReleaseOption(f"noise {i}", "output", models, OutputNoise(1.0 + i / 1e6, fixed=True)) for i in range(2)]
    options.append(ReleaseOption("little", "output", models, OutputNoise(0.2, fixed=True)))
    advice = advise(compare(options, rng=np.random.default_rng(0)))
    assert set(advice.recommended) == {"noise 0", "noise 1"}
    assert "do not tell these apart" in advice.parts[0]


@pytest.mark.long
def test_an_attack_that_knows_nothing_of_a_measure_does_not_show_that_it_helps() -> None:
    """Noise that an adaptive attack would read through: a plain threshold alone says that it helps."""
    models = disclosing.models(effect=1.0)
    blind = replace(models, logits=models.logits[:1], included=models.included[:1])
    quiet = OutputNoise(3.0, fixed=True)
    found = compare(
        [ReleaseOption("as-it-is", "output", blind, AsItIs()), ReleaseOption("noise", "output", blind, quiet)],
        rng=np.random.default_rng(0),
    )
    assert found.reductions[0].low > 0  # what a page would have called help
    advice = advise(found)
    assert advice.judged[1].effect == "not shown" and advice.recommended == ()
    assert advice.text.startswith("No defence is shown to help") and "attack that knows of it" in advice.text
    assert any("went through output noise of 3 fixed for each record" in text for text in advice.rests_on)
    given = ReleaseOption("given", "given", blind, quiet, "given", adaptive=False)
    beside = compare([ReleaseOption("as-it-is", "output", models, AsItIs()), given], rng=np.random.default_rng(0))
    assert beside.reductions[0].low > 0 and advise(beside).recommended == ()


@pytest.mark.long
def test_where_nothing_leaks_nothing_helps() -> None:
    for seed in range(3):
        models = disclosing.models(effect=0.0, seed=seed, shadows=8)
        options = [ReleaseOption("as-it-is", "output", models, AsItIs())]
        options += [ReleaseOption(f"top {k}", "output", models, TopK(k)) for k in (1, 2)]
        options.append(ReleaseOption("label", "output", models, LabelOnly()))
        advice = advise(compare(options, rng=np.random.default_rng(seed)))
        assert advice.recommended == ()
        assert advice.text.startswith("No defence is shown to help")


def test_the_front_is_that_of_its_definition(found: DefenceComparison) -> None:
    points = [(one.leakage["auc"].value, one.accuracy.value) for one in found.measured]
    for judged, (auc, right) in zip(advise(found).judged, points, strict=True):
        dominated = any(a <= auc and b >= right and (a, b) != (auc, right) for a, b in points)
        assert judged.front == (not dominated)


def test_nothing_compared_and_a_tolerance_outside_its_range(found: DefenceComparison) -> None:
    alone = DefenceComparison(found.measured[:1], (), (), (), 0.95)
    assert advise(alone).text == "Nothing was compared with the outputs as they are."
    with pytest.raises(InputError, match="tolerance"):
        advise(found, tolerance=1.5)
