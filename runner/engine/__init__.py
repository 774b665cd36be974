"""What a benchmark instance does: episodes, environment processes, recording. Knows neither Ray nor the store."""
