"""What keeps the program from answering well, and the command that mends it; looks only, writes nothing."""
