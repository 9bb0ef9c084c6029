"""MemGuard (Jia, Salem, Backes, Zhang and Gong, CCS 2019): noise that makes a neural membership classifier undecided.

:class:`miaudit.defences.noise.AdversarialNoise` does the same against a linear classifier, for which the noise has a
closed form; here it is searched for, as published.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray, IndexArray
from miaudit.defences.calibration import held_out
from miaudit.defences.noise import outputs_on_members
from miaudit.defences.outputs import Disclosed, Kind, Measure, Randomness, checked
from miaudit.errors import InputError
from miaudit.errors.extras import pip_line
from miaudit.errors.options import Option

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["FittedMemGuard", "MemGuard"]

_WIDTHS = (256, 128, 64)  # of the classifier's hidden layers
_BATCH = 64
_LARGEST_WEIGHT = 1e5  # of the distortion
_UNDECIDED = 1e-5  # a classifier that is so close to one half is left alone
_FLOOR = 1e-30
_ROUNDING = 1e-12  # a difference that double precision makes is no distortion
_TOLD_APART = 1e3  # vectors whose log-probabilities differ by a thousandth have coins of their own
_ROWS = 4096  # searched together

Layers = tuple[tuple[FloatArray, FloatArray], ...]


@dataclass(frozen=True)
class MemGuard(Measure):
    """Noise that makes the owner's neural membership classifier undecided and keeps the label (Jia et al. 2019).

    **Classifier.** The owner learns membership from sorted confidence vectors, of records that the model learnt and of
    held-out ones: three hidden layers of 256, 128 and 64, one output g, the log-odds of membership; plain stochastic
    gradient descent in batches of 64. **Noise.** In the space of logits z, with softmax(z) the vector, steps of fixed
    length go down the gradient of |g| + c2 max(0, z_other - z_label) + c3 ||softmax(z) - p||_1 until g has changed its
    sign and the label is kept; from there on again with ten times c3, from the start, as long as that succeeds. The
    last success is the noise; where there is none, or g of the sorted vector comes no nearer to 0, the vector stays as
    it is. **Budget.** The noise d is given out with probability min(1, budget / ||d||_1), so the expected distortion of
    every single record is at most the budget, and equal to it wherever the noise is longer.

    The coin of a record follows from a key, drawn when the classifier is fitted, and from the vector (its
    log-probabilities to three decimals): the same query has the same answer whenever and however often it is asked, and
    nothing can be averaged away. An attacker who may change a record a little has other coins; that is not measured.

    Algorithm and constants are those of the authors' program (github.com/jinyuan-jia/MemGuard, 34e1859e:
    ``defense_framework.py``, ``fccnet_location.py``, ``evaluate_nn_attack.py``, ``config.ini``), which ends with c3 =
    1e5 and checks after each of 299 steps. The paper itself was not at hand, so that its text agrees with the program
    was not checked. Other than there: logarithms of probabilities stand for logits, which differ by a constant that
    nothing here depends on; the smaller side is repeated until both weigh the same; a record that needs the budget is
    decided by its own coin, not by a generator's state; double precision.

    Parameters
    ----------
    budget : largest expected distortion of a record, the sum of absolute changes of its probabilities; in (0, 2]
    epochs, learning_rate : of the classifier's training
    label_weight, distortion_weight : c2, and c3 of the first round
    steps, step : at most so many less one in a round, and the length of each in logits

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> out, members = rng.dirichlet([4, 1, 1], 100), rng.dirichlet([40, 1, 1], 100)
    >>> guard = MemGuard(epochs=5, learning_rate=0.1, steps=50)
    >>> fitted = guard.fit(out, np.zeros(100, dtype=np.intp), learnt=members, rng=rng)
    >>> bool(fitted.apply(members, rng=rng).values.max(axis=1).mean() < members.max(axis=1).mean() - 0.05)
    True
    """

    budget: Annotated[float, Option(gt=0, le=2, next_step="2 allows any change")] = 1.0
    epochs: Annotated[int, Option(ge=1, allowed="a whole number from 1 up", next_step="400 as published")] = 400
    learning_rate: Annotated[float, Option(gt=0, allowed="a number above 0", next_step="0.001 as published")] = 0.001
    label_weight: Annotated[float, Option(ge=0, allowed="0 or more", next_step="10 as published")] = 10.0
    distortion_weight: Annotated[
        float, Option(gt=0, le=_LARGEST_WEIGHT, allowed="a number above 0, at most 1e5", next_step="0.1 as published")
    ] = 0.1
    steps: Annotated[int, Option(ge=2, allowed="a whole number from 2 up", next_step="300 as published")] = 300
    step: Annotated[float, Option(gt=0, allowed="a number above 0", next_step="0.1 as published")] = 0.1
    kind: Kind = "confidence-vector"
    keeps_label: bool = True
    randomness: Randomness = "fixed"

    @property
    def words(self) -> str:
        """What a page calls it."""
        return f"MemGuard (budget {self.budget:g})"

    def fit(
        self,
        probabilities: FloatArray,
        labels: IndexArray,
        *,
        learnt: FloatArray | None = None,
        rng: np.random.Generator,
    ) -> FittedMemGuard:
        """Learn what gives members away. Needs PyTorch.

        Raises
        ------
        InputError
            Without PyTorch, and without outputs on members.
        """
        outside, inside = held_out(probabilities, labels), outputs_on_members(learnt)
        seed, key = int(rng.integers(2**31)), rng.bytes(16)
        return FittedMemGuard(_learned(inside, outside, self, seed), self, key)


@dataclass(frozen=True, eq=False)
class FittedMemGuard:
    """A membership classifier on sorted confidences, and what may be changed to silence it.

    Attributes
    ----------
    layers : weights (outputs, inputs) and biases (outputs,) of each layer, with ReLU between them
    options : MemGuard
    key : of the coins
    """

    layers: Layers
    options: MemGuard
    key: bytes = field(repr=False)

    def apply(self, probabilities: FloatArray, *, rng: np.random.Generator) -> Disclosed:  # noqa: ARG002
        """Give out each vector (..., K) with its noise, or as it is, by its own coin; nothing is drawn from ``rng``."""
        p = checked(probabilities)
        flat = p.reshape(-1, p.shape[-1])
        noisy, share = self.noise(flat)
        released = np.where((self.coins(flat) < share)[:, None], noisy, flat)
        return Disclosed("confidence-vector", released.reshape(p.shape))

    def noise(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return vectors with noise (n, K), and the probabilities (n,) with which they are given out."""
        order = np.argsort(-p, axis=1, kind="stable")
        down = np.take_along_axis(p, order, axis=1)
        parts = [_Search(self.layers, self.options, down[i : i + _ROWS]).run() for i in range(0, len(p), _ROWS)]
        noisy = np.empty_like(p)
        np.put_along_axis(noisy, order, np.concatenate(parts) if parts else down, axis=1)
        distortion = np.abs(noisy - p).sum(axis=1)
        nearer = np.abs(special.expit(self.log_odds(noisy)) - 0.5) < np.abs(special.expit(self.log_odds(p)) - 0.5)
        reach = np.divide(self.options.budget, distortion, out=np.ones(len(p)), where=distortion > self.options.budget)
        return noisy, np.where(nearer, reach, 0.0)

    def log_odds(self, p: FloatArray) -> FloatArray:
        """Return the classifier's log-odds of membership (n,) for vectors (n, K)."""
        activations = -np.sort(-p, axis=1)
        for i, (weights, biases) in enumerate(self.layers):
            activations = (np.maximum(activations, 0.0) if i else activations) @ weights.T + biases
        return np.asarray(activations[:, 0])

    def coins(self, p: FloatArray) -> FloatArray:
        """Return a number in [0, 1) for each vector (n, K): always the same one, and unknown without the key."""
        rows = np.rint(_TOLD_APART * np.log(np.maximum(p, _FLOOR))).astype("<i8")
        digests = (hashlib.blake2b(row.tobytes(), digest_size=8, key=self.key).digest() for row in rows)
        return np.array([(int.from_bytes(one, "little") >> 11) / 2**53 for one in digests])


class _Search:
    """The search for noise on sorted vectors (n, K), the label first."""

    def __init__(self, layers: Layers, options: MemGuard, p: FloatArray) -> None:
        torch = _torch()
        self.options = options
        self.layers = [(torch.as_tensor(weights), torch.as_tensor(biases)) for weights, biases in layers]
        self.p = torch.as_tensor(p)
        self.z = torch.log(self.p.clamp(min=_FLOOR))
        self.side = self._log_odds(self.p)

    def run(self) -> FloatArray:
        """Return the noisy vectors (n, K) of the last round that succeeded, or those that were given."""
        torch = _torch()
        from miaudit.models.devices import fixed_order  # noqa: PLC0415 - it imports torch

        noisy = self.p.clone()
        with fixed_order(torch.device("cpu")):
            alive = ((torch.sigmoid(self.side) - 0.5).abs() > _UNDECIDED).nonzero()[:, 0]
            weight = self.options.distortion_weight
            while len(alive) and weight <= _LARGEST_WEIGHT * (1 + 1e-9):
                z, done = self._round(alive, weight)
                alive = alive[done]
                noisy[alive] = torch.softmax(z[done], dim=1)
                weight *= 10
        return np.asarray(noisy.numpy())

    def _round(self, rows: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        """Go down the gradient with one weight of the distortion; return the logits, and which rows succeeded."""
        torch = _torch()
        z, done = self.z[rows].clone(), torch.zeros(len(rows), dtype=torch.bool)
        for taken in range(self.options.steps):
            left = (~done).nonzero()[:, 0]
            here = z[left].requires_grad_()
            q = torch.softmax(here, dim=1)
            odds = self._log_odds(q)
            if taken:
                reached = (odds * self.side[rows[left]] <= 0) & (q[:, 0] > q[:, 1:].max(dim=1).values)
                done[left[reached]] = True
                if taken == self.options.steps - 1 or bool(done.all()):
                    break
            else:
                reached = torch.zeros(len(left), dtype=torch.bool)
            lost = torch.relu(here[:, 1:].max(dim=1).values - here[:, 0])
            apart = q - self.p[rows[left]]
            # Where nothing has moved yet the distortion has no gradient, and rounding errors must not make one.
            distortion = torch.where(apart.abs() > _ROUNDING, apart, 0.0).abs().sum(dim=1)
            loss = odds.abs() + self.options.label_weight * lost + weight * distortion
            (slope,) = torch.autograd.grad(loss[~reached].sum(), here)
            length = slope.norm(dim=1, keepdim=True)
            step = torch.where(length > 0, slope / length.clamp(min=torch.finfo(slope.dtype).tiny), 0.0)
            z[left] = torch.where(reached[:, None], z[left], z[left] - self.options.step * step)
        return z, done

    def _log_odds(self, p: Tensor) -> Tensor:
        """Return the classifier's log-odds for vectors in their own order, as published: they are not sorted again."""
        torch = _torch()
        activations = p
        for i, (weights, biases) in enumerate(self.layers):
            activations = torch.addmm(biases, torch.relu(activations) if i else activations, weights.T)
        return activations[:, 0]


def _learned(inside: FloatArray, outside: FloatArray, options: MemGuard, seed: int) -> Layers:
    """Train the classifier on sorted vectors of members and others, the smaller side repeated."""
    torch = _torch()
    from miaudit.models import train  # noqa: PLC0415 - it imports torch

    count = max(len(inside), len(outside))
    sides = [np.resize(-np.sort(-p, axis=1), (count, p.shape[1])) for p in (inside, outside)]
    x, y = np.concatenate(sides).astype(np.float32), np.repeat([1, 0], count)

    def network() -> nn.Module:
        layers: list[nn.Module] = []
        for inputs, outputs in zip((x.shape[1], *_WIDTHS), (*_WIDTHS, 1), strict=True):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
            torch.nn.init.xavier_uniform_(layers[-2].weight)
            torch.nn.init.zeros_(layers[-2].bias)
        classifier: nn.Module = torch.nn.Sequential(*layers[:-1])
        return classifier

    config = train.TrainConfig(
        learning_rate=options.learning_rate,
        momentum=0.0,
        schedule="constant",
        epochs=options.epochs,
        batch=_BATCH,
        device="cpu",
        loss="binary_cross_entropy",
    )
    state = train.fit(network, config, x, y, np.arange(len(x)), seed=seed)
    arrays = [one.double().numpy() for one in state.values()]
    return tuple(zip(arrays[::2], arrays[1::2], strict=True))


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415 - the only defence that needs it
    except ImportError as error:
        raise InputError("memguard", "PyTorch", "an installation without it", pip_line("torch")) from error
    return torch
