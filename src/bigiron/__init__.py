"""bigiron: GPU training fleets run like mainframes."""

__version__ = "0.1.0"
