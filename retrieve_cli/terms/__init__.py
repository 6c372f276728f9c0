"""Names that catalogs, files and people use for the same thing: tenants, modalities, licences, numbers."""
