"""The order of the stages: one pure turn, and the ways to run it (live, once, over history)."""
