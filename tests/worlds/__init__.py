"""Simulators with known answers, slow twins of the fast code, and the loops that measure coverage."""
