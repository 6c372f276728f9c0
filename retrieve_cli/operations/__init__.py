"""Status, records, why, history, diff and verify, as plain values."""
