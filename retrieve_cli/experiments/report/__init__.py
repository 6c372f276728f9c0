"""An evaluation as one HTML page that needs nothing else: tables, curves, and the queries that went worst."""
