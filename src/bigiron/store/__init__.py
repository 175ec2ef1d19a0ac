"""What happened (the ledger) and what was measured (samples)."""
