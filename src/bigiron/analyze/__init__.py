"""Questions about a job or a fleet that no single observation answers.

Pure functions over our own nouns: no clock, no input or output, no randomness.

* ``hang``: from all ranks' flight recorder dumps to the ranks a hung job waits for.
"""
