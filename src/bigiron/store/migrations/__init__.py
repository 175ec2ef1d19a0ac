"""The ledger's schema step by step; run when a ledger is opened (``database.open_to_write``)."""
