"""What a model's owner can do against membership inference, and what each measure gains and costs."""

__all__ = [
    "calibration",
    "compare",
    "ensemble",
    "findings",
    "label_sets",
    "laplace",
    "memguard",
    "noise",
    "outputs",
    "registry",
    "swag",
    "synthetic",
    "trial",
]
