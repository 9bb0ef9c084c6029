"""A training loop of one's own, and a checkpoint as people save it: some images are learned, others kept apart."""

from pathlib import Path

import numpy as np
import torch
from resnet import build

torch.manual_seed(0)
torch.set_num_threads(1)
data = np.load("digits.npz")
images, labels = torch.from_numpy(data["image"]), torch.from_numpy(data["digit"])
member = np.random.default_rng(0).random(len(labels)) < 0.5  # by coins, so that the audit may say design: one-run
learned = torch.from_numpy(np.flatnonzero(member))

model = torch.nn.DataParallel(build())  # every name then begins with "module."
optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model.train()
for epoch in range(6):  # noqa: B007 - saved below
    for batch in learned[torch.randperm(len(learned))].split(64):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimiser.step()

checkpoint = {"epoch": epoch, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimiser.state_dict()}
torch.save(checkpoint, "resnet.pt")
np.savez(Path("audited.npz"), image=data["image"], digit=data["digit"], member=member)
