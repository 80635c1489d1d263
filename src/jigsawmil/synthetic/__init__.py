"""Synthetic cohorts and slides with a known answer."""
