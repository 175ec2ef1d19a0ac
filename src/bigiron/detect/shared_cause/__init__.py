"""One part that many nodes share: found before any of them is blamed."""
