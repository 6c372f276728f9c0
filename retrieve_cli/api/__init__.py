"""The Python API: an open index that answers, for programs as for the command line."""
