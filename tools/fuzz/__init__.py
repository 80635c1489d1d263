"""Damage files of every kind that the program reads, and look at what it makes of them: `python -m tools.fuzz`."""
