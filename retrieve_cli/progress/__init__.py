"""Progress of long work: named tasks that count, and a display that may show them."""
