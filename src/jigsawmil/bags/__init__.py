"""Feature bags: one slide's patches, how they were made, and the file formats they are read from and written to."""
