"""What a person reads: tables for the terminal and for documents, plots, and maps of attention."""
