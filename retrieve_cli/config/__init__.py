"""Every key with its default; reading, validating and editing config.yaml."""
