"""`python -m bigiron`."""

from bigiron.cli import main

main()
