"""The stand-in worlds: published figures, mechanisms against closed forms, interventions, and the loader of EEDI."""

from __future__ import annotations

import json
from importlib import resources
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from causal_synthesis.loaders import EediStandIn, load_eedi
from causal_synthesis.pain import IN_DEGREES, LEVELS, NoisyMax, PainParameters, pain, parameters

from miaudit.errors import InputError
from miaudit.synthesis.worlds import Gaussian, Softmax, Term, synthetic22
from worlds import synthetic22 as publisher

# -- the pain form ----------------------------------------------------------------------------------------------------


def test_the_graph_of_pain_is_the_counted_one() -> None:
    graph = pain().graph
    names = graph.schema.names
    layer = {name: 0 if i < 27 else 1 if i < 79 else 2 for i, name in enumerate(names)}
    assert (len(names), len(graph.edges)) == (222, 770)
    assert all(layer[effect] - layer[cause] == 1 for cause, effect in graph.edges)  # none within a layer, none skips
    assert sum(layer[effect] == 1 for _, effect in graph.edges) == 58
    degrees = [len(graph.parents(name)) for name in names if layer[name] == 2]
    assert {d: degrees.count(d) for d in set(degrees)} == IN_DEGREES
    assert {cause for cause, effect in graph.edges if layer[effect] == 2} == set(names[27:79])  # none without a symptom
    for name in names[79:]:
        parents = graph.parents(name)
        levels = sorted({int(parent.split("_")[1]) for parent in parents})
        assert levels == list(range(levels[0], levels[0] + len(parents) // 2))  # whole pairs, a contiguous range


@pytest.mark.long
def test_pain_has_the_calibrated_positives() -> None:
    """Closed form against 40,000 draws, all columns; the calibration of synthesis.md by layer."""
    world, p = pain(), parameters()
    values = world.sample(40_000, rng=np.random.default_rng(3)).values
    assert values.any(axis=1).all()  # records of zeros were drawn again
    counts = [float(values[:, rows].sum(axis=1).mean()) for rows in (slice(0, 27), slice(27, 79), slice(79, None))]
    assert (np.abs(np.subtract(counts, (2.8, 4.7, 9.7))) < (0.04, 0.08, 0.2)).all()
    means = [float(values[:, rows].mean()) for rows in (slice(0, 27), slice(27, 79), slice(79, None))]
    np.testing.assert_allclose(means, (0.10, 0.09, 0.07), atol=0.005)
    exact = np.concatenate([p.injury, [p.craniocervical], p.radiculopathies().ravel(), p.symptoms()]) / (1 - p.all_zero)
    error = np.abs(values.mean(axis=0) - exact) / np.sqrt(exact * (1 - exact) / len(values))
    assert error.max() < 4.5
    assert np.maximum(exact, 1 - exact).mean() == pytest.approx(0.92, abs=0.005)  # erratum D10's majority rate


@pytest.mark.parametrize("width", [1, 2])
def test_the_closed_form_is_the_sum_over_all_parents(width) -> None:
    """The symptom nearest the top by brute force over injuries and radiculopathies."""
    p = parameters()
    symptom = min((j for j in range(143) if p.width[j] == width), key=lambda j: p.first[j])
    level, weights = int(p.first[symptom]), p.from_radiculopathy[symptom]
    total = 0.0
    for c, *injuries in product((0, 1), repeat=1 + width):
        mass = p.craniocervical if c else 1 - p.craniocervical
        rates = []
        for here, injured in zip(range(level, level + width), injuries, strict=True):
            mass *= p.injury[here] if injured else 1 - p.injury[here]
            for side in (0, 1):
                active = [0.01, injured * p.from_injury[here, side]]
                active.append(c * p.from_craniocervical[here, side] if here < 3 else 0.0)
                rates.append(max(active))
        for states in product((0, 1), repeat=2 * width):
            chance = np.prod([r if s else 1 - r for r, s in zip(rates, states, strict=True)])
            total += mass * chance * max(0.01, *(w * s for w, s in zip(weights, states, strict=True)))
    assert p.symptoms()[symptom] == pytest.approx(total, abs=1e-12)


def test_another_calibration_is_told_apart() -> None:
    """The control: with every weight a tenth larger the closed form is off by more than the tolerance above."""
    p = parameters()
    larger = PainParameters(
        p.injury,
        p.craniocervical,
        np.minimum(p.from_injury * 1.1, 1),
        p.from_craniocervical,
        p.first,
        p.width,
        p.from_radiculopathy,
    )
    assert larger.radiculopathies().sum() / (1 - p.all_zero) > 4.7 + 0.2


def test_the_partial_graphs_of_pain() -> None:
    for split, sizes in (("79 | 143", [79, 143]), ("27 | 195", [27, 195])):
        partial = pain(split).partial["causes"]
        assert [len(columns) for columns in partial.groups.values()] == sizes
        assert partial.edges == (("causes", "conditions"),)
    with pytest.raises(InputError, match="split"):
        pain("80 | 142")


@pytest.mark.long
def test_an_injury_set_from_outside_changes_what_it_causes_and_nothing_else() -> None:
    world, rng = pain(), np.random.default_rng(0)
    forced = world.sample(20_000, rng=rng, do={"injury_13": 1})
    p = parameters()
    np.testing.assert_allclose(forced.column("radiculopathy_13_left").mean(), p.from_injury[12, 0], atol=0.02)
    assert abs(forced.column("injury_12").mean() - p.injury[11]) < 0.01
    # setting an effect says nothing of its cause, seeing it does
    effect = world.sample(20_000, rng=rng, do={"radiculopathy_13_left": 1})
    assert abs(effect.column("injury_13").mean() - p.injury[12]) < 0.01
    seen = world.sample(20_000, rng=rng)
    assert seen.column("injury_13")[seen.column("radiculopathy_13_left") == 1].mean() > 0.7
    assert LEVELS == 26


# -- 22 attributes ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published() -> dict[str, object]:
    text = resources.files("miaudit.synthesis").joinpath("synthetic22.json").read_text(encoding="utf-8")
    found: dict[str, object] = json.loads(text)
    return found


@pytest.mark.thorough
@pytest.mark.long
def test_the_published_file_can_be_made_again(published) -> None:
    binary = publisher.binary()
    given = published["variants"]["binary"]
    assert (published["version"], published["seed"]) == (1, publisher.SEED)
    assert given["columns"] == binary["columns"]
    for ours, theirs in zip(binary["nodes"], given["nodes"], strict=True):
        assert ours["weights"] == theirs["weights"]
        np.testing.assert_allclose(ours["bias"], theirs["bias"], atol=2e-6)


def test_prevalences_weights_and_edges(published) -> None:
    world = synthetic22()
    assert len(world.graph.edges) == 40
    assert world.graph.parents("L8") == ("M8", "M1", "R3")
    assert world.graph.parents("M6") == ("R1", "R2")
    nodes = published["variants"]["binary"]["nodes"]
    weights = [abs(w) for node in nodes for row in node["weights"] for w in row]
    assert len(weights) == 40
    assert min(weights) >= 1
    assert max(weights) <= 2
    exact = publisher.prevalence(nodes)
    assert [exact[f"R{i + 1}"] for i in range(6)] == pytest.approx(publisher.ROOTS, abs=1e-6)
    assert all(0.2 <= exact[name] <= 0.5 for name in world.schema.names[6:])
    drawn = world.sample(20_000, rng=np.random.default_rng(1)).values.mean(axis=0)
    np.testing.assert_allclose(drawn, [exact[name] for name in world.schema.names], atol=0.015)


def test_the_mixed_variant() -> None:
    world = synthetic22("mixed")
    table = world.sample(20_000, rng=np.random.default_rng(2))
    kinds = [column.kind for column in world.schema.columns]
    assert (kinds.count("categorical"), kinds.count("continuous")) == (6, 6)
    lost = np.isnan(table.values).mean(axis=0)
    assert (lost[:6] == 0).all()
    np.testing.assert_allclose(lost[6:], 0.10, atol=0.01)
    r1 = table.column("R1")
    by_root = [np.isnan(table.values[r1 == k, 6:]).mean() for k in (0, 1)]
    np.testing.assert_allclose(by_root, (0.05, 0.15), atol=0.01)  # at random given R1, not completely
    for name, column in zip(world.schema.names, world.schema.columns, strict=True):
        if name[0] != "R" and column.kind != "continuous":
            known = table.column(name)[~np.isnan(table.column(name))]
            shares = [(known == level).mean() for level in range(1, column.levels)]
            assert all(0.18 < share < 0.52 for share in shares), name
    assert np.abs(np.nanmax(table.values)) <= 8


def test_an_intervention_has_the_effect_that_enumeration_gives(published) -> None:
    """P(L1 = 1 | do(M1 = v)) by enumeration of roots and the other parent."""
    nodes = {node["name"]: node for node in published["variants"]["binary"]["nodes"]}

    def chance(name: str, values: dict[str, int]) -> float:
        node = nodes[name]
        z = node["bias"][0] + sum(w * values[q] for w, q in zip(node["weights"][0], node["parents"], strict=True))
        return float(1 / (1 + np.exp(-z)))

    world, rng = synthetic22(), np.random.default_rng(4)
    found = []
    for v in (0, 1):
        exact = 0.0
        for roots in product((0, 1), repeat=6):
            values = {f"R{i + 1}": r for i, r in enumerate(roots)}
            mass = np.prod([p if r else 1 - p for r, p in zip(roots, publisher.ROOTS, strict=True)])
            for m2 in (0, 1):
                q = chance("M2", values)
                exact += mass * (q if m2 else 1 - q) * chance("L1", {**values, "M1": v, "M2": m2})
        forced = world.sample(20_000, rng=rng, do={"M1": v})
        assert (forced.column("M1") == v).all()
        assert forced.column("L1").mean() == pytest.approx(exact, abs=0.015)
        found.append(exact)
    assert abs(found[1] - found[0]) > 0.1


def test_mechanisms_at_fixed_inputs() -> None:
    rng = np.random.default_rng(0)
    terms = (Term("a"), Term("b", 2))
    inputs = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    noisy = NoisyMax(terms, (0.4, 0.7), 0.05)
    assert noisy.probability(inputs).tolist() == [0.05, 0.4, 0.7]
    soft = Softmax(terms, ((1.0, 0.0), (0.0, -2.0)), (0.0, 0.5))
    odds = np.exp([[0, 0, 0.5], [0, 1, 0.5], [0, 1, -1.5]])
    np.testing.assert_allclose(soft.probability(inputs), odds / odds.sum(axis=1, keepdims=True))
    drawn = soft.draw(np.repeat(inputs, 20_000, axis=0), rng).reshape(3, -1)
    shares = np.stack([(drawn == k).mean(axis=1) for k in range(3)], axis=1)
    np.testing.assert_allclose(shares, soft.probability(inputs), atol=0.015)
    gaussian = Gaussian(terms, (1.0, 2.0), 0.5, 0.1, -8, 8).draw(np.repeat(inputs, 5_000, axis=0), rng).reshape(3, -1)
    np.testing.assert_allclose(gaussian.mean(axis=1), (0.5, 1.5, 3.5), atol=0.01)
    assert Term("b", 2).of(np.array([0.0, 2.0])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: synthetic22("ternary"), "variant"),
        (lambda: synthetic22().sample(0, rng=np.random.default_rng(0)), "n: "),
        (lambda: synthetic22().sample(5, rng=np.random.default_rng(0), do={"M9": 1}), "M9"),
        (lambda: synthetic22().sample(5, rng=np.random.default_rng(0), do={"M1": 2}), "M1"),
        (lambda: EediStandIn(0), "questions"),
        (lambda: EediStandIn(12).sample(5, rng=np.random.default_rng(0), do={"question_1": 1}), "no mechanism to cut"),
    ],
)
def test_bad_input(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()


# -- EEDI -------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_eedi_stand_in_has_its_shape() -> None:
    world = EediStandIn(600)
    table = world.sample(3_000, rng=np.random.default_rng(0))
    answers = table.values[:, 3:]
    assert np.isnan(answers).mean() == pytest.approx(0.7, abs=0.02)
    assert (~np.isnan(answers)).any(axis=1).all()
    quizzes = np.isnan(answers).reshape(3_000, 50, 12)
    assert (quizzes.all(axis=2) | ~quizzes.any(axis=2)).all()  # a quiz is answered whole
    premium = [world.sample(3_000, rng=np.random.default_rng(1), do={"premium_pupil": v}) for v in (0, 1)]
    assert premium[0].values[:, 3:].mean() - premium[1].values[:, 3:].mean() > 0.05
    assert not np.isnan(premium[0].values).any()
    assert len(EediStandIn().schema) == 951


def write_eedi(folder: Path, answers: list[tuple[int, int, int]], students: str) -> Path:
    (folder / "train_data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    rows = "\n".join(f"{q},{u},{i},{c},1,1" for i, (u, q, c) in enumerate(answers))
    header = "QuestionId,UserId,AnswerId,IsCorrect,CorrectAnswer,AnswerValue\n"
    (folder / "train_data" / "train_task_3_4.csv").write_text(header + rows + "\n")
    (folder / "metadata" / "student_metadata_task_3_4.csv").write_text(
        "UserId,Gender,DateOfBirth,PremiumPupil\n" + students
    )
    return folder


def test_the_challenge_files_are_read(tmp_path) -> None:
    answers = [(7, 0, 1), (7, 2, 0), (9, 1, 1), (12, 0, 0), (12, 1, 0), (12, 2, 1)]
    students = "12,2,2008-08-31 00:00:00.000,1.0\n7,1,2008-09-01 00:00:00.000,\n9,0,,0.0\n"
    found = load_eedi(write_eedi(tmp_path / "eedi", answers, students), questions=3)
    assert found.students.tolist() == [7, 9, 12]
    nan = np.nan
    expected = [[1, 0, nan, 1, nan, 0], [0, nan, 0, nan, 1, nan], [2, 1, 1, 0, 0, 1]]  # years up to 6, unknown, 7
    np.testing.assert_array_equal(found.table.values, expected)
    assert found.graph.edges == (("student", "answers"),)
    most = load_eedi(tmp_path / "eedi", questions=3, students=2)
    assert most.students.tolist() == [7, 12]
    assert load_eedi(tmp_path / "eedi", questions=3, least_answers=3).students.tolist() == [12]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"questions": 2}, "QuestionId 2"),
        ({"questions": 3, "students": 4}, "students: expected 1 to 3"),
        ({"questions": 3, "least_answers": 9}, "least_answers"),
    ],
)
def test_unusable_challenge_files(tmp_path, options, message) -> None:
    folder = write_eedi(tmp_path / "eedi", [(7, 0, 1), (9, 1, 1), (12, 2, 0)], "7,1,,\n")
    with pytest.raises(InputError, match=message):
        load_eedi(folder, **options)
    with pytest.raises(InputError, match="does not exist"):
        load_eedi(tmp_path, questions=3)
