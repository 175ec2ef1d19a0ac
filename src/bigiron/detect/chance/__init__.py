"""What chance alone does: robust medians and spreads, nulls, p-values, many comparisons.

Everything is a closed form over arrays (methods.md 3.1). The modules here import numpy and are
loaded only where folds run.
"""
