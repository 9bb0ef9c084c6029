"""Scores of texts against loops over tokens, a world with a known likelihood ratio, and files that are wrong."""

from __future__ import annotations

import json
import zlib
from itertools import pairwise
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from scipy import special

from miaudit.attacks import tokens
from miaudit.attacks.tokens import Limits, TokenRecords
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample


def ragged(n: int = 60, longest: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = np.r_[1, 2, longest, rng.integers(1, longest, n - 3)]
    offsets = np.r_[0, np.cumsum(lengths)]
    total = int(offsets[-1])
    return {
        "log_p": np.round(-rng.exponential(3.0, total), 1),  # rounded: with ties
        "offsets": offsets,
        "mean": -rng.exponential(3.0, total),
        "std": rng.exponential(1.0, total) * (rng.random(total) < 0.95),
        "reference_log_p": -rng.exponential(2.0, total),
        "reference_offsets": offsets,
    }


def rows(values: np.ndarray, offsets: np.ndarray) -> list[list[float]]:
    return [values[a:b].tolist() for a, b in pairwise(offsets)]


def lowest(values: list[float], k: float) -> float:
    kept = sorted(values)[: max(1, int(k * len(values) + 1e-9))]
    return sum(kept) / len(kept)


# -- slow twins -------------------------------------------------------------------------------------------------------


def test_loss_and_ratios_equal_loops() -> None:
    w = ragged()
    texts = ["word " * i + chr(65 + i) for i in range(60)]
    found = tokens.member_scores(**w, text=texts)
    slow = [sum(row) / len(row) for row in rows(w["log_p"], w["offsets"])]
    reference = [-sum(row) / len(row) for row in rows(w["reference_log_p"], w["offsets"])]
    np.testing.assert_allclose(found["loss"], slow, rtol=1e-12)
    np.testing.assert_allclose(found["reference_ratio"], np.array(slow) / reference, rtol=1e-12)
    sizes = [len(zlib.compress(text.encode("utf-8"))) for text in texts]
    np.testing.assert_allclose(found["zlib_ratio"], np.array(slow) / sizes, rtol=1e-12)


@pytest.mark.parametrize("k", [0.01, 0.2, 0.29, 0.5, 1.0, 1])
def test_min_k_equals_loops(k: float) -> None:
    w = ragged(longest=101)
    z = [
        [(lp - m) / max(s, 1e-6) for lp, m, s in zip(*parts, strict=True)]
        for parts in zip(*(rows(w[name], w["offsets"]) for name in ("log_p", "mean", "std")), strict=True)
    ]
    plain = tokens.min_k(w["log_p"], w["offsets"], k=k)
    np.testing.assert_allclose(plain, [lowest(row, k) for row in rows(w["log_p"], w["offsets"])], rtol=1e-12)
    plus = tokens.min_k_plus_plus(w["log_p"], w["offsets"], w["mean"], w["std"], k=k)
    np.testing.assert_allclose(plus, [lowest(row, k) for row in z], rtol=1e-10)
    if k == 1:
        np.testing.assert_allclose(plain, tokens.loss(w["log_p"], w["offsets"]), rtol=1e-12)


def test_the_count_of_tokens_is_that_of_real_numbers() -> None:
    values = -np.arange(100.0)
    assert tokens.min_k(values, [0, 100], k=0.29)[0] == -np.arange(71, 100).mean()  # int(0.29 * 100) is 28


def test_records_do_not_mix() -> None:
    w = ragged()
    w["log_p"][w["offsets"][30] : w["offsets"][31]] -= 50
    moved = tokens.member_scores(**w)
    base = tokens.member_scores(**ragged())
    for name, values in base.items():
        assert np.flatnonzero(moved[name] != values).tolist() == [30], name


def test_all_scores_rise_with_the_probability_of_every_token() -> None:
    w, texts = ragged(), ["some text"] * 60
    higher = {**w, "log_p": w["log_p"] / 2 - 0.01}
    higher["log_p"] = np.maximum(higher["log_p"], w["log_p"])
    low, high = (tokens.member_scores(**x, text=texts) for x in (w, higher))
    assert set(low) == set(tokens.ATTACKS)
    for name, values in low.items():
        assert (high[name] >= values).all(), name
        assert (high[name] > values).any(), name


def test_no_input_is_changed() -> None:
    w = ragged()
    kept = {name: values.copy() for name, values in w.items()}
    tokens.member_scores(**w)
    for name, values in w.items():
        np.testing.assert_array_equal(values, kept[name])


# -- a known likelihood ratio -----------------------------------------------------------------------------------------


def markov(n: int, seed: int, hardness: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Members draw each token from the model itself, others from a flatter law; records differ in how hard they are."""
    rng = np.random.default_rng(seed)
    member, length, words = rng.random(n) < 0.5, 12, 30
    sharp = rng.uniform(1 - hardness, 1 + hardness, (n, length, 1)) * rng.normal(size=(n, length, words)) * 1.5
    log_p = special.log_softmax(sharp, axis=-1)
    flatter = special.log_softmax(0.6 * sharp, axis=-1)
    law = np.where(member[:, None, None], log_p, flatter)
    drawn = (law + rng.gumbel(size=law.shape)).argmax(axis=-1)
    own, other = (np.take_along_axis(x, drawn[..., None], 2)[..., 0] for x in (log_p, flatter))
    mean = (np.exp(log_p) * log_p).sum(axis=-1)
    std = np.sqrt((np.exp(log_p) * (log_p - mean[..., None]) ** 2).sum(axis=-1))
    offsets = np.arange(n + 1) * length
    flat = {"log_p": own, "mean": mean, "std": std, "optimal": (own - other), "reference_log_p": other}
    return {**{k: v.ravel() for k, v in flat.items()}, "offsets": offsets, "reference_offsets": offsets}, member


def test_the_share_of_the_optimal_auc() -> None:
    """The likelihood ratio of the two laws is known: no score beats it, and each reaches a stated share of its gain."""
    w, member = markov(6000, 0, hardness=0.8)
    optimal = np.add.reduceat(w.pop("optimal"), w["offsets"][:-1])
    best = Sample.of(Evidence(score=optimal, member=member)).roc.auc
    scores = tokens.member_scores(**w, k=0.5)
    auc = {name: Sample.of(Evidence(score=s, member=member)).roc.auc for name, s in scores.items()}
    assert best > 0.8
    share = {name: (value - 0.5) / (best - 0.5) for name, value in auc.items()}
    assert max(share.values()) < 1.005  # chance, in 6,000 records
    assert share["min_k_plus_plus"] > share["min_k"]  # what standardising each position is for
    for name, least in {"loss": 0.9, "min_k": 0.85, "min_k_plus_plus": 0.9, "reference_ratio": 0.98}.items():
        assert share[name] > least, (name, share)


def test_without_membership_no_score_says_anything() -> None:
    """The control: the same texts, with membership drawn again."""
    w, _ = markov(6000, 0, hardness=0.8)
    w.pop("optimal")
    fresh = np.random.default_rng(9).random(6000) < 0.5
    for name, score in tokens.member_scores(**w).items():
        assert abs(Sample.of(Evidence(score=score, member=fresh)).roc.auc - 0.5) < 0.025, name


def test_speed_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(rng.integers(10, 200, 10_000))]
    values = -rng.exponential(size=int(offsets[-1]))
    start = process_time()
    fast = tokens.min_k(values, offsets)
    middle = process_time()
    slow = [lowest(row, 0.2) for row in rows(values, offsets)]
    np.testing.assert_allclose(fast, slow, rtol=1e-12)
    assert middle - start < (process_time() - middle) / 2


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_p": [0.5, -1.0]}, "if these are losses, pass their negatives"),
        ({"log_p": [np.nan, -1.0]}, "first at token 0"),
        ({"log_p": [-1.0, -np.inf]}, "first at token 1"),
        ({"log_p": [[-1.0, -1.0]]}, r"shape \(tokens,\)"),
        ({"log_p": ["a", "b"]}, "numbers"),
        ({"offsets": [0, 1]}, "from 0 to 2"),
        ({"offsets": [0, 2, 2]}, "none in record 1"),
        ({"offsets": [0, 2, 1, 2]}, "none in record 1"),
        ({"offsets": [0.0, 1.0, 2.0]}, "whole numbers"),
        ({"offsets": [2]}, "whole numbers"),
        ({"mean": [-1.0], "std": [1.0, 1.0]}, "mean: expected 2 values"),
        ({"mean": [-1.0, -1.0], "std": [1.0, -1.0]}, "standard deviation"),
        ({"mean": [-1.0, -1.0], "std": [1.0, np.nan]}, "std: expected finite"),
        ({"text": ["a"]}, "2 sizes"),
        ({"reference_log_p": [-1.0], "reference_offsets": [0, 1]}, "expected 2 records"),
        ({"reference_log_p": [-1.0, 0.0], "reference_offsets": [0, 1, 2]}, "in record 1"),
        ({"k": 0.0}, "write 0.2 for 20%"),
        ({"k": 20}, "write 0.2 for 20%"),
        ({"k": float("nan")}, "write 0.2 for 20%"),
        ({"names": ["mink"]}, "did you mean min_k"),
        ({"names": ["min_k_plus_plus"]}, "mean, std for min_k_plus_plus"),
        ({"names": ["zlib_ratio"]}, "text for zlib_ratio"),
        ({"names": []}, "choose one"),
    ],
)
def test_bad_arrays(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tokens.member_scores(**{"log_p": [-1.0, -2.0], "offsets": [0, 1, 2], **change})


def test_point_masses_and_single_tokens_stay_finite_and_ordered() -> None:
    """A model certain of another token: std 0. A lower probability of what came is still a lower score."""
    found = tokens.min_k_plus_plus([-100.0, -200.0, 0.0], [0, 1, 2, 3], mean=[0.0] * 3, std=[0.0] * 3)
    assert np.isfinite(found).all()
    assert found[1] < found[0] < found[2] == 0


# -- files ------------------------------------------------------------------------------------------------------------


def line(i: int, **fields: object) -> dict[str, object]:
    return {"id": f"r{i}", "member": i % 2 == 0, "logprobs": [-1.0 - i, -2.0], **fields}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "t.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n", encoding="utf-8")
    return path


def records(n: int = 20) -> TokenRecords:
    w = ragged(n)
    names = tuple(f"é {i}" for i in range(n))
    return TokenRecords(ids=names, member=np.arange(n) % 2 == 0, **w, text=names, unit=names, group=("a",) * n)


def test_round_trip(tmp_path: Path) -> None:
    wanted = records()
    tokens.write_jsonl(tmp_path / "t.jsonl", wanted)
    found = tokens.read_jsonl(tmp_path / "t.jsonl")
    for name in ("log_p", "offsets", "mean", "std", "reference_log_p", "reference_offsets", "member"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert (found.ids, found.text, found.unit, found.group) == (wanted.ids, wanted.text, wanted.unit, wanted.group)
    assert set(found.scores()) == set(tokens.ATTACKS)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_the_least_that_a_file_may_hold(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeff" + json.dumps(line(0, id=7, member=1, model="x")), "", line(1, member=0))
    found = tokens.read_jsonl(path)
    assert found.ids == ("7", "r1")
    assert found.member.tolist() == [True, False]
    assert list(found.scores()) == ["loss", "min_k"]
    assert found.text is None
    assert found.notes == ("Keys that were not used, with the first line of each: 'model' (line 1).",)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"id": "b", "member": true, "logprobs": [NaN]}', "received NaN"),
        ('{"id": "b", "member": true, "logprobs": [-Infinity]}', "received -Infinity"),
        ('{"id": "b", "member": true, "logprobs": [-1e999]}', "position 0"),
        ('{"id": "b", "member": true, "logprobs": [-1' + "0" * 400 + "]}", "finite numbers"),
        ('{"id": "b", "member": true, "logprobs": [-1' + "0" * 5000 + "]}", "line 2"),
        ('{"id": "b", "member": true, "logprobs": [null, -1.0]}', "null at position 0; leave out tokens"),
        ('{"id": "b", "member": true, "logprobs": [true]}', "bool at position 0"),
        ('{"id": "b", "member": true, "logprobs": ["-1"]}', "str at position 0"),
        ('{"id": "b", "member": true, "logprobs": [2.5]}', "negate losses"),
        ('{"id": "b", "member": true, "logprobs": []}', "an empty list"),
        ('{"id": "b", "member": true, "logprobs": -1}', "a list of one number"),
        ('{"id": "b", "member": true, "member": false, "logprobs": [-1]}', "each key once"),
        ('{"id": "b", "member": "yes", "logprobs": [-1]}', "true or false"),
        ('{"id": "b", "member": 1.0, "logprobs": [-1]}', "true or false"),
        ('{"id": null, "member": 1, "logprobs": [-1]}', "text or a whole number"),
        ('{"id": "b", "logprobs": [-1]}', "none named member"),
        ('{"id": "b", "member": true, "logprob": [-1]}', "did you mean logprobs"),
        ('{"id": "r0", "member": true, "logprobs": [-1]}', "as in line 1"),
        ('{"id": "b", "member": true, "logprobs": [-1], "text": "a"}', "text given; give it everywhere"),
        ('{"id": "b", "member": true, "logprobs": [-1], "mean": [-1]}', "min-k%[+][+] needs both"),
        ('{"id": "b", "member": true, "logprobs": [-1], "mean": [-1], "std": [1, 2]}', "as in logprobs"),
        ('{"id": "b", "member": true, "logprobs": [-1], "mean": [-1], "std": [-1]}', "standard deviation"),
        ('{"id": "b\\ud800", "member": true, "logprobs": [-1]}', "half characters"),
        ('{"id": "b", "member": true, "logprobs": [-1]', "JSON: expected one object"),
        ("[" * 200_000, "nested too deeply|one object"),
        ("[1]", "received list"),
    ],
)
def test_bad_lines_are_named_by_number(tmp_path: Path, second: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        tokens.read_jsonl(written(tmp_path, line(0), second))
    assert str(refused.value).startswith("t.jsonl, line 2, ")
    assert "\n" not in str(refused.value)


def damaged(kind: str, folder: Path) -> Path:
    path = folder / "t.jsonl"
    if kind == "empty":
        path.write_text("\n\n")
    elif kind == "bytes":
        path.write_bytes(json.dumps(line(0)).encode() + b"\n\xff\xfe\n")
    elif kind == "name":
        path = folder / "t.json"
        path.write_text("{}")
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [("empty", "none in t.jsonl"), ("bytes", "line 2, text: expected UTF-8"), ("name", ".jsonl"), ("none", "exist")],
)
def test_bad_files(tmp_path: Path, kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tokens.read_jsonl(damaged(kind, tmp_path))


@pytest.mark.parametrize("limits", [Limits(line_bytes=60), Limits(records=2), Limits(tokens=5)])
def test_limits(tmp_path: Path, limits: Limits) -> None:
    path = written(tmp_path, line(0), line(1), line(2, text_="x" * 80) if limits.line_bytes == 60 else line(2))
    with pytest.raises(InputError, match="line 3, size: expected at most"):
        tokens.read_jsonl(path, limits=limits)
    tokens.read_jsonl(written(tmp_path, line(0), line(1)), limits=limits)


def test_a_file_without_line_ends_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    with path.open("wb") as handle:
        handle.truncate(2**33)  # 8 GB, of which nothing is on the disk
    with pytest.raises(InputError, match="line 1, size"):
        tokens.read_jsonl(path, limits=Limits(line_bytes=1000))


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    wrong = records()
    wrong.log_p[3] = np.nan
    with pytest.raises(ValueError, match="JSON"):
        tokens.write_jsonl(tmp_path / "t.jsonl", wrong)
    assert list(tmp_path.iterdir()) == []
