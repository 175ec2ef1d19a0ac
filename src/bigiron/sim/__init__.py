"""A simulated fleet: recordings of weeks (`record`), and a small one in real time (`live`).

It knows no detector's constants, and no detector knows its own: an import contract sees to that.
"""
