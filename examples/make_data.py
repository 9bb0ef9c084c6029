"""Write the tiny data of the examples beside their configuration files: handwritten digits, and sentences by rules.

Run it once: ``python examples/make_data.py``. Nothing is downloaded.
"""

from __future__ import annotations

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
    np.savez(HERE / "sklearn" / "digits.npz", pixels=images.astype(np.float32), digit=labels)
    ids = np.array([f"digit-{i:04d}" for i in range(len(labels))])
    np.savez(HERE / "command" / "digits.npz", pixels=images.astype(np.float32), digit=labels, id=ids)
    square = images.reshape(-1, 1, 8, 8).astype(np.float32) / 16
    np.savez(HERE / "pytorch" / "digits.npz", image=square, digit=labels)


def sentences(count: int = 240) -> None:
    """Write short texts: all by the same rules, each with a number of its own that only memory can know."""
    rng = np.random.default_rng(7)
    lines = []
    for i in range(count):
        parts = [str(rng.choice(words)) for words in (NAMES, VERBS, THINGS, PLACES)]
        text = f"{' '.join(parts)} and paid {rng.integers(10_000, 99_999)} with card {rng.integers(1_000, 9_999)}."
        lines.append(json.dumps({"id": i, "text": text, "who": parts[0]}))
    (HERE / "text" / "sentences.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    digits()
    sentences()
