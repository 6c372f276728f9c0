"""The only room that imports an HTTP client: transport, retries, redaction, credentials, address rules."""
