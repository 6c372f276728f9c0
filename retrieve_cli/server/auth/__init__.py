"""Credentials of the server's callers: keys in a file, signed tokens, scopes, and limits of requests per credential."""
