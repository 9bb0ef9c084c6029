"""Attacks on a synthetic table as it is, with members and control records at hand."""
