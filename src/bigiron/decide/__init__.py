"""Findings to verdicts, verdicts to actions. Pure: the hub alone carries anything out."""
