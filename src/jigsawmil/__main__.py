"""`python -m jigsawmil`."""

from .cli import main

main()
