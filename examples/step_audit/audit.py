"""Is Opacus used right here? Four short trainings with canary gradients, next to what the accountant says.

pip install opacus miaudit[dp,torch]
python examples/make_data.py
python examples/step_audit/audit.py            # add --forget-noise to see a bug refuted
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from opacus import PrivacyEngine

from miaudit.dp import accounting, step_audit
from miaudit.models.step_canaries import StepCanaries

warnings.simplefilter("ignore")  # of Opacus, about random numbers that are not cryptographic
NOISE, CLIP, BATCHES, EPOCHS = 1.0, 1.0, 9, 3  # Opacus samples each record with probability 1 / batches

parser = argparse.ArgumentParser()
parser.add_argument("--runs", type=int, default=4)
parser.add_argument("--canaries", type=int, default=1000)
parser.add_argument("--forget-noise", action="store_true", help="train with a tenth of the noise that is claimed")
options = parser.parse_args()

folder = Path(__file__).resolve().parents[1] / "opacus"
data = np.load(folder / "digits.npz")
x, y = data["image"].reshape(-1, 64).astype("float32"), data["digit"]
rng = np.random.default_rng()
runs = []
for number in range(options.runs):
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    canaries = StepCanaries(net, x, y, count=options.canaries, clip=CLIP, rng=rng)
    optimiser = canaries.follow(torch.optim.SGD(canaries.model.parameters(), lr=0.5))
    loader = torch.utils.data.DataLoader(canaries.data, batch_size=-(-len(canaries.data) // BATCHES))
    model, optimiser, loader = PrivacyEngine().make_private(
        module=canaries.model,
        optimizer=optimiser,
        data_loader=loader,
        noise_multiplier=NOISE / 10 if options.forget_noise else NOISE,
        max_grad_norm=CLIP,
    )
    for _ in range(EPOCHS):
        for inputs, labels in loader:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimiser.step()
    runs.append(canaries.released(divided_by=optimiser.expected_batch_size))
    print(f"run {number + 1} of {options.runs}: {runs[-1]}", file=sys.stderr)

claim = accounting.dp_sgd(records=100 * BATCHES, batch=100, noise=NOISE, steps=EPOCHS * BATCHES)
found = step_audit.audit(runs, claim, rng=rng)
print(found)
sys.exit(found.exit_code)
