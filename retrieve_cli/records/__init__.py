"""What is kept of records and what they can be filtered by."""
