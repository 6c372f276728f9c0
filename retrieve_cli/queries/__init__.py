"""What is read out of the user's text and files before retrieval."""
