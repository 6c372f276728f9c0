"""Sources of records: catalogs, folders of documents, remote catalogs."""
