"""A simulated fleet: nodes, jobs and faults, seen through the exporters people run."""
