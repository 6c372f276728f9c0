"""The only room that opens connections: HTTP transport, retries, redaction, credentials, address rules, listening."""
