"""A Keras model that is fitted already, audited in one call."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

import miaudit as ma

data = np.load("digits.npz")
x, y = data["image"], data["digit"]
member = np.random.default_rng(0).random(len(y)) < 0.5  # drawn by coins
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss)
model.fit(x[member], y[member], epochs=20, verbose=0)

findings = ma.audit_model(
    model, members=(x[member], y[member]), nonmembers=(x[~member], y[~member]), design="one-run", rng=0
)
findings.to_html("results/report.html", overwrite=True)
print(findings)
