"""Ready types for common kinds of robots: `from seq.presets import robot_arm`."""
