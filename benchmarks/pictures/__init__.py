"""Scripts that draw the pictures of the documentation."""
