"""Files that the demo leaves beside its results, to go on with: scores, data, configurations, a table of patients."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.io import atomic

FOREST = """\
target:
  kind: sklearn
  estimator: sklearn.ensemble:RandomForestClassifier
  options: {n_estimators: 50, n_jobs: 1}
data: {path: digits.npz, x: pixels, y: digit, group: digit}
"""
LIMITS = """\
reporting:
  limits: {tpr_at_fpr_0.1: 0.15, auc: 0.6}  # of this demo; leave them out for the default limits
"""
AUDIT = f"""\
# What is trained on what, which attack counts, and which limits the verdict has: written down beforehand.
{FOREST}shadow: {{models: 16, store: shadows}}
attack: {{type: [lira_online, loss], fpr_targets: [0.01, 0.1], headline: lira_online}}
{LIMITS}evaluation: {{output_dir: results, seed: 0}}
"""
DISCLOSURE = f"""\
# What may be returned: does it help to say less than all probabilities, or to train differently?
{FOREST.replace(", group: digit", "")}shadow: {{models: 16, store: shadows-disclosure}}
disclosure:
  release: as-it-is
  defences: [rounding: {{digits: 1}}, isotonic, label]
  trainings:
    large leaves: {{options: {{min_samples_leaf: 10}}}}
{LIMITS}evaluation: {{output_dir: disclosure, seed: 0}}
"""


def contents(evidence: Evidence) -> dict[str, bytes]:
    """Return the files by name: the demo's evidence as a user would have it, and the data of two configurations.

    Parameters
    ----------
    evidence : of :func:`miaudit.collect.demo.evidence`
    """
    from sklearn.datasets import load_diabetes, load_digits

    loss, member = -evidence.score, evidence.member
    pixels, digit = load_digits(return_X_y=True)
    patients = load_diabetes(scaled=False)
    measured = np.column_stack([patients.data[:, :4], patients.target])
    scores = np.column_stack([member, loss, digit])
    return {
        "member_losses.npy": _written(np.save, loss[member]),
        "nonmember_losses.npy": _written(np.save, loss[~member]),
        "scores.csv": _table("member,loss,digit", scores, ("%d", "%.6g", "%d")),
        "digits.npz": _written(np.savez_compressed, pixels=pixels.astype(np.float32), digit=digit),
        "audit.yaml": AUDIT.encode(),
        "disclosure.yaml": DISCLOSURE.encode(),
        "patients.csv": _table("age,sex,bmi,pressure,progression", measured, ("%d", "%d", "%.1f", "%d", "%d")),
    }


def leave(files: Mapping[str, bytes], folder: Path, *, overwrite: bool) -> None:
    """Write files into a folder, each whole or not at all; others there stay.

    Raises
    ------
    InputError
        If one is there already with something else in it, and ``overwrite`` is false; nothing is written then.
    """
    there = {name: folder / name for name in files if (folder / name).exists()}
    other = [path for name, path in there.items() if path.read_bytes() != files[name]]
    if other and not overwrite:
        received = f"{other[0]}, which holds something else"
        raise InputError("--out", "a folder whose data may be written", received, "choose another, or add --overwrite")
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        atomic.write_atomically(folder / name, partial(_fill, file))


def _fill(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _written(write: Callable[..., None], *values: object, **options: object) -> bytes:
    """Return what a writer of numpy would put into a file."""
    held = io.BytesIO()
    write(held, *values, **options)
    return held.getvalue()


def _table(header: str, rows: FloatArray, forms: Sequence[str]) -> bytes:
    return _written(np.savetxt, rows, fmt=forms, delimiter=",", header=header, comments="")
