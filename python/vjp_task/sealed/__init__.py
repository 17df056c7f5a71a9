"""A sealed panel: its manifest, and how a solver is run on it without seeing it."""
