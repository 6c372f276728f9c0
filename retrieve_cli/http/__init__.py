"""HTTP transport, retries, redaction, credentials, address rules, listening: only this package opens connections."""
