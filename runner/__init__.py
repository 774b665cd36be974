"""The platform: gateway, store, fleet, evals, the worker and the engine. Only `runner.main` wires them."""
