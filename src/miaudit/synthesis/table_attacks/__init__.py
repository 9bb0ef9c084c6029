"""Attacks on a synthetic table as it is, with members and control records at hand."""

__all__ = ["table_audit"]
