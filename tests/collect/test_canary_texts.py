"""What canaries of texts are made of: rare words, one fact for another of its form, documents that stand alone."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from miaudit.auditing.near_texts import near
from miaudit.collect import canary_texts
from miaudit.collect.canaries import CanaryKind, ChangedFact, HeldOut, Insertion, RandomTokens, RareTokens, added
from miaudit.collect.canary_table import beside
from miaudit.collect.records import Records
from miaudit.errors import InputError

STRANGE = [
    "",
    "   ",
    "🙂",
    "🙂🙃 👩‍👩‍👧 🇩🇪",
    "日本語のテキスト、そして数字42。",
    "line\nline\r\n\ttab\u2028separator",
    'quotes " and \\ and \x00 and {} braces',
    "\ud800 alone",
    "العربية ١٢٣",
]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def records(texts: list[str], **more: object) -> Records:
    return Records(texts, None, None, {}, "texts", **more)  # type: ignore[arg-type]


def documents(n: int = 80, seed: int = 3) -> list[str]:
    generator = np.random.default_rng(seed)
    words = ["".join(generator.choice(list("aeilmnorst"), 6)) for _ in range(400)]
    names = ["Ada Lovelace", "Emmy Noether", "Lise Meitner", "Sofia Kovalevskaya", "Mary Somerville"]
    return [
        f"{' '.join(generator.choice(words, 9))} met {names[i % 5]} on {1 + i % 28} March {1800 + i} for {i * 7 + 10} "
        f"coins, {' '.join(generator.choice(words, 9))}."
        for i in range(n)
    ]


def test_rare_words_are_those_that_few_documents_have_and_the_frame_stays() -> None:
    common = [f"word{'abcdefghij'[i % 10]} and the other" for i in range(300)]
    rare = [f"rare{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(150)]
    made = canary_texts.rare_words([*common, *rare], 200, rng(), words=3, frame="It is {}, she said")
    found = [re.fullmatch(r"It is (\S+) (\S+) (\S+), she said", text) for text in made]
    assert all(found)
    assert {word for one in found if one for word in one.groups()} <= set(rare)
    with pytest.raises(InputError, match="two different words"):
        canary_texts.rare_words(["a a", "a"], 3, rng(), words=3, frame="{}")


def test_words_of_scripts_without_letters_or_spaces_are_taken_as_they_stand() -> None:
    made = canary_texts.rare_words(["🙂 🙃", "42 🙃"], 4, rng(), words=2, frame="{}")
    assert set(" ".join(made).split()) <= {"🙂", "🙃", "42"}


@pytest.mark.parametrize("frame", ["no place", "{} twice {}", "", 5])
def test_a_frame_has_one_place(frame: object) -> None:
    with pytest.raises(InputError, match=r"canaries\.frame: expected a text with \{\} once"):
        RareTokens(5, frame=frame)  # type: ignore[arg-type]


def test_one_fact_is_changed_for_another_of_its_form_from_another_document() -> None:
    data = documents()
    made, rows = canary_texts.changed_facts(records(data), 60, rng())
    kinds = []
    for text, row in zip(made.x, rows, strict=True):
        pairs = [(a, b) for a, b in zip(data[row].split(), text.split(), strict=True) if a != b]
        assert 1 <= len(pairs) <= 3  # a name and a date have several words, and a day may be a number of coins as well
        assert all(re.sub(r"\d", "0", a) == re.sub(r"\d", "0", b) or (a.istitle() and b.istitle()) for a, b in pairs)
        there = " ".join(other for i, other in enumerate(data) if i != row).split()
        assert {b for _, b in pairs} <= set(there)
        kinds.append(pairs[0][1].isalpha())
    assert 5 < sum(kinds) < 55  # names, and numbers or dates


def test_every_place_of_a_fact_is_changed_and_no_part_of_another_number() -> None:
    pools = {("number", "00"): ["77"]}
    fact = canary_texts._Fact("number", "12")
    text = "12 of 12, not 12.5 or 312 or 12,000; 12"
    assert canary_texts._changed(text, [fact], pools, rng()) == "77 of 77, not 12.5 or 312 or 12,000; 77"
    assert canary_texts._changed(text, [fact], {("number", "00"): ["12"]}, rng()) is None


def test_what_is_a_fact() -> None:
    found = canary_texts._facts(
        "The Pope came on 2 May 2021 (2021-05-02) with 1,200 of Église Saint-Paul and naïve émile."
    )
    assert [(one.kind, one.value) for one in found if one.kind != "word"] == [
        ("name", "Pope"),
        ("date", "2 May 2021"),
        ("date", "2021-05-02"),
        ("number", "1,200"),
        ("name", "Église Saint"),
    ]


def test_a_changed_document_takes_the_place_of_its_original() -> None:
    data = documents()
    found = added(records(data, ids=np.arange(80)), ChangedFact(30), rng=rng())
    assert found.n == 80
    kept = [data.index(text) for text in found.x[:50]]
    assert sorted(kept) == np.asarray(found.ids)[:50].tolist()
    assert near(found.x[50:], found.x[:50]).max() < 0
    assert (near(found.x[50:], data) >= 0).mean() > 0.9  # of the original, which is gone


def test_documents_without_a_fact_or_with_one_nearly_like_them_are_passed_over() -> None:
    plain = ["it was and so on", "as ever it was"] * 5
    data = documents(20)
    twins = [f"{text} indeed" for text in data[:10]]
    with pytest.raises(InputError, match="expected at most 10, of 40 documents, received 11; documents without a fact"):
        added(records([*data, *twins, *plain]), ChangedFact(11), rng=rng())
    found = added(records([*data, *twins, *plain]), ChangedFact(10), rng=rng())
    assert not set(found.x[-10:]) & set(data)
    with pytest.raises(InputError, match="expected at most 10 documents, of 40 documents, received 11"):
        added(records([*data, *twins, *plain]), HeldOut(11), rng=rng())
    held = added(records([*data, *twins, *plain]), HeldOut(10), rng=rng())
    assert set(held.x[-10:]) == set(data[10:])


def test_all_documents_as_canaries_leave_none_to_learn() -> None:
    for kind in (HeldOut(80), ChangedFact(80)):
        with pytest.raises(InputError, match="expected at most 79"):
            added(records(documents()), kind, rng=rng())


@pytest.mark.long
def test_held_out_documents_are_drawn_with_equal_chances() -> None:
    data = documents(40)
    times = np.zeros(40)
    for seed in range(200):
        found = added(records(data), HeldOut(10), rng=rng(seed))
        times[[data.index(text) for text in found.x[-10:]]] += 1
    assert abs(times - 50).max() < 5 * np.sqrt(200 * 0.25 * 0.75)


@pytest.mark.parametrize("kind", [RandomTokens(8), RareTokens(8), ChangedFact(8), HeldOut(8)])
def test_strange_texts_make_canaries_that_all_differ(kind: CanaryKind) -> None:
    data = [*documents(30), *STRANGE]
    for seed in range(3):
        found = added(records(data), kind, rng=rng(seed), insertion=Insertion((1, 3)))
        canaries = found.x[-8:]
        assert len(set(canaries)) == 8
        assert all(text.strip() for text in canaries)
        assert not set(canaries) & set(found.x[:-8])
        assert near(canaries, found.x[:-8]).max() < 0
        again = added(records(data), kind, rng=rng(seed), insertion=Insertion((1, 3)))
        assert again.x == found.x
        np.testing.assert_array_equal(np.asarray(again.times), np.asarray(found.times))


@pytest.mark.parametrize("kind", [RandomTokens(8), RareTokens(8), ChangedFact(8), HeldOut(8)])
@pytest.mark.parametrize("texts", [["", " "] * 9, ["a"] * 20, ["🙂"] * 20])
def test_data_of_which_nothing_can_be_made_are_refused_in_one_line(kind: CanaryKind, texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"canaries\.|data\.text") as error:
        added(records(texts), kind, rng=rng())
    assert "\n" not in str(error.value)


def test_texts_that_are_drawn_into_the_data_are_drawn_again() -> None:
    """Of two words there are few phrases: those that the data have are no canaries."""
    data = [f"{a} {b}" for a in ("sun", "rain") for b in ("sun", "rain")][:3]
    found = added(records([*data, "other"]), RandomTokens(3), rng=rng())
    assert not set(found.x[-3:]) & set(data)


def test_canaries_of_a_file_that_nearly_stand_in_a_record_are_refused_by_name() -> None:
    data = records(documents())
    inside = " ".join(data.x[7].split()[:12])
    with pytest.raises(InputError, match="canary 1, which nearly stands in a record") as error:
        beside(data, records(["something else that is said", inside]))
    assert data.x[7][:30] in str(error.value)
    assert beside(data, records(["something else that is said", "and one more that is not"])).n == 82


def test_units_of_canaries_of_a_file_have_no_other_records() -> None:
    data = replace(records(documents()), fields={"unit": np.arange(80) // 2})
    own = replace(records(["a new text of mine", "another one of mine"]), fields={"unit": np.array([90, 90])})
    assert np.asarray(beside(data, own).fields["unit"])[-2:].tolist() == [90, 90]
    with pytest.raises(InputError, match=r"data\.unit: expected units of canaries that have no other records"):
        beside(data, replace(own, fields={"unit": np.array([90, 3])}))
    times = beside(data, replace(own, times=np.array([2, 5]))).times
    assert np.asarray(times)[-3:].tolist() == [1, 2, 5]
