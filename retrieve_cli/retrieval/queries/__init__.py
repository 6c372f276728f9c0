"""Parts of a query: tags, filters, boosts, files, broader texts."""
