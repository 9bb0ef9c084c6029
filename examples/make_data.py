"""Write the tiny data of the examples beside their configuration files: handwritten digits, and sentences by rules.

Run it once: ``python examples/make_data.py``. Nothing is downloaded.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
NAMES = ("Ada", "Ben", "Cleo", "Dov", "Eve", "Finn", "Gita", "Hugo")
VERBS = ("sold", "lost", "painted", "found", "borrowed", "mended", "buried", "drew")
THINGS = ("a lamp", "two maps", "the red boat", "an old clock", "his bicycle", "a kite", "some letters", "the drum")
PLACES = ("in Oslo", "near the mill", "at noon", "by the river", "in the attic", "under the bridge", "at the fair")


def digits() -> None:
    """Write 8 x 8 images of digits with their class: flat, as images for PyTorch, and with ids for a script."""
    images, labels = load_digits(return_X_y=True)
    for folder in ("sklearn", "own", "array"):
        np.savez(HERE / folder / "digits.npz", pixels=images.astype(np.float32), digit=labels)
    ids = np.array([f"digit-{i:04d}" for i in range(len(labels))])
    np.savez(HERE / "command" / "digits.npz", pixels=images.astype(np.float32), digit=labels, id=ids)
    square = images.reshape(-1, 1, 8, 8).astype(np.float32) / 16
    for folder in ("pytorch", "checkpoint", "opacus"):
        np.savez(HERE / folder / "digits.npz", image=square, digit=labels)
    np.savez(HERE / "keras" / "digits.npz", image=square.reshape(-1, 8, 8, 1), digit=labels)


def patients(count: int = 800) -> None:
    """Write people of a hospital that does not exist: texts, gaps and dates, where they went and for how long."""
    rng = np.random.default_rng(3)
    age, visits = rng.integers(18, 95, count), rng.poisson(2, count)
    district = rng.choice(["north", "south", "harbour"], count, p=[0.5, 0.3, 0.2])
    smoker = rng.choice(["yes", "no"], count)
    ill = 0.03 * (age - 55) + 0.5 * (smoker == "yes") + 0.3 * visits + rng.normal(size=count)
    smoker[rng.random(count) < 0.1] = ""  # not asked
    went = np.select([ill < 0, ill < 3.2], ["home", "ward"], "intensive care")
    admitted = np.datetime64("2024-01-01") + rng.integers(0, 365, count).astype("timedelta64[D]")
    days = np.round(np.exp(0.5 * ill + 0.3 * rng.normal(size=count)), 1)
    rows = zip(range(count), age, district, smoker, visits, admitted, went, days, strict=True)
    with (HERE / "frame" / "patients.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("person", "age", "district", "smoker", "visits", "admitted", "went", "days"), *rows]
        )


def visits(count: int = 400) -> None:
    """Write visitors of a clinic that does not exist: four numbers, three complaints, and how long they stayed."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(count, 4)).round(3)
    complaints = (x @ rng.normal(size=(4, 3)) + 2 * rng.normal(size=(count, 3)) > 0).astype(int)
    hours = (0.3 * x[:, 0] + 0.4 * complaints.sum(axis=1) + rng.normal(size=count)).round(2)
    names = ("age", "pulse", "warmth", "weight", "fever", "cough", "rash", "hours")
    with (HERE / "visits" / "visits.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *np.column_stack([x, complaints, hours]).tolist()])


def sentences(count: int = 240) -> None:
    """Write short texts: all by the same rules, each with a number of its own that only memory can know."""
    rng = np.random.default_rng(7)
    lines = []
    for i in range(count):
        parts = [str(rng.choice(words)) for words in (NAMES, VERBS, THINGS, PLACES)]
        text = f"{' '.join(parts)} and paid {rng.integers(10_000, 99_999)} with card {rng.integers(1_000, 9_999)}."
        lines.append(json.dumps({"id": i, "text": text, "who": parts[0]}))
    (HERE / "text" / "sentences.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def reviews(count: int = 300) -> None:
    """Write short texts with a class: a rule that can be learned, and one label in five that can only be memorised."""
    rng = np.random.default_rng(11)
    lines = []
    for _ in range(count):
        parts = [str(rng.choice(words)) for words in (NAMES, VERBS, THINGS, PLACES)]
        label = int(parts[1] in VERBS[:4]) ^ int(rng.random() < 0.2)
        text = f"{' '.join(parts)} for {rng.integers(10, 99)}"
        lines.append(json.dumps({"text": text, "label": label}))
    (HERE / "huggingface" / "reviews.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    digits()
    patients()
    reviews()
    sentences()
    visits()
