"""A Keras model, as miaudit calls it: compile, fit on the rows, outputs on all records. Any backend."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # or tensorflow, or jax

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--rows", required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", required=True)
options = parser.parse_args()
keras.utils.set_random_seed(options.seed)

data, rows = np.load("digits.npz"), np.load(options.rows)
model = keras.Sequential(
    [
        keras.layers.Input((8, 8, 1)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="sparse_categorical_crossentropy")
model.fit(data["image"][rows], data["digit"][rows], batch_size=32, epochs=8, verbose=0)
np.save(f"{options.out}/outputs.npy", model.predict(data["image"], verbose=0))  # all records, in their order
