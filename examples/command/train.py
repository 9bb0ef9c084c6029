"""A training script of one's own, as miaudit calls it: rows and a seed go in, outputs on all records come out.

What is between the two is yours: another framework, another language, many GPUs.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--rows", required=True, help="a .npy file of row numbers to train on, in this order")
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", type=Path, required=True, help="an empty folder")
options = parser.parse_args()

data = np.load("digits.npz")  # it runs in the folder of the configuration file
pixels, digit = data["pixels"] / 16, data["digit"]
rows = np.load(options.rows)

model = SGDClassifier(loss="log_loss", alpha=1e-5, max_iter=30, tol=None, random_state=options.seed)
model.fit(pixels[rows], digit[rows])

np.save(options.out / "outputs.npy", model.decision_function(pixels))  # all records, in the order of the data
np.save(options.out / "ids.npy", data["id"])  # optional: miaudit compares them with its own
print(f"trained on {len(rows)} records")
