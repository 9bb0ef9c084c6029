"""From finished findings to a page and figures."""

__all__ = ["exports"]
