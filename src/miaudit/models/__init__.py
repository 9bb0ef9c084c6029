"""Models: networks, training and what a model says of records. Its modules import torch, this line does not."""

__all__ = [
    "command",
    "nets",
    "onnx_file",
    "own_target",
    "protocol",
    "recorded_step",
    "shadow",
    "step_canaries",
    "structure",
    "targets",
    "text",
    "train",
    "weights",
]
