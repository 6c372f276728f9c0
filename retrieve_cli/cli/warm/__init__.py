"""The warm command line: a process that has loaded and opened everything answers for a command by a copy of itself."""
