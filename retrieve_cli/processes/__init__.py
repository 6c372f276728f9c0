"""Worker processes of this program: their start, the frames that they exchange, their time limits and their end."""
