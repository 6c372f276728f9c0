"""Different names for the same thing in catalogs, files and queries: tenants, modalities, licences; numbers."""
