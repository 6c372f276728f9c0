"""Every key with its default; reading and validating config.yaml."""
