"""Optional: Ray clusters, remote storage and data-parallel training."""
