"""What a model made of every patch: maps, exports, and a test of whether the maps can be trusted."""
