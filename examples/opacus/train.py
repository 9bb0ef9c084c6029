"""DP-SGD by Opacus, as miaudit calls it: rows and a seed go in, outputs on all records come out."""

import argparse
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine

warnings.simplefilter("ignore")  # of Opacus, about random numbers that are not cryptographic
parser = argparse.ArgumentParser()
parser.add_argument("--rows", required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", required=True)
options = parser.parse_args()
torch.manual_seed(options.seed)

data, rows = np.load("digits.npz"), np.load(options.rows)
x, y = torch.from_numpy(data["image"].reshape(-1, 64)), torch.from_numpy(data["digit"])
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
learned = torch.utils.data.TensorDataset(x[rows], y[rows])
loader = torch.utils.data.DataLoader(learned, batch_size=90)
private, optimiser, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimiser, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
)
for _ in range(10):
    for inputs, labels in loader:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(private(inputs), labels).backward()
        optimiser.step()

with torch.no_grad():
    np.save(f"{options.out}/outputs.npy", model(x).numpy())
