"""From pixels to patches: slides, tissue, tiles, and painted slides with a known answer."""
