"""Report of an evaluation as one self-contained HTML page: tables, curves, and the worst queries."""
