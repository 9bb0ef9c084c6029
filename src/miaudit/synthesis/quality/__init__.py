"""How good a synthetic table is: fidelity, utility, interventions, and worlds whose truth is known."""
