"""The project's own speed, told as ratios measured side by side in one run."""
