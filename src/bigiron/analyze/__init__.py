"""Questions about a job or a fleet that no single observation answers.

Pure functions over our own nouns: no clock, no input or output, no randomness (draws
are from fixed seeds).

* ``hang``: from all ranks' flight recorder dumps to the ranks a hung job waits for.
* ``score``: what a replay found of what really happened, with n and intervals; ``score_truth``
  holds the classes and their deadlines, ``score_tally`` the counting, ``intervals`` the statistics.
* ``baselines``, ``baselines_many``, ``bocpd``, ``isolation_forest``: the usual methods, for
  comparison.
* ``hazard_model``: how likely a part fails within the next period, fitted to past outcomes.
"""
