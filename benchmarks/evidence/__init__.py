"""Accuracy on synthetic cohorts and on real tissue, and the page that states it."""
