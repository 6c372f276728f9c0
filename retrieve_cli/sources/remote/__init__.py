"""Remote catalogs: fetched into a local file of JSON Lines, then read like any catalog."""
