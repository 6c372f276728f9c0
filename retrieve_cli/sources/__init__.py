"""Where records come from: catalogs, folders of documents, remote catalogs."""
