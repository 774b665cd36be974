"""Vectorized simulators behind one small protocol. Knows nothing of policies, evals or the platform."""
