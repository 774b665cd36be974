"""Deployments and benchmarks made real: builds, policy workers, the robot's door."""
