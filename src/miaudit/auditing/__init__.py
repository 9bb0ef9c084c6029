"""An audit from evidence to findings: the plan, the choices that are paid for, the verdict."""

__all__ = ["plan", "power"]
