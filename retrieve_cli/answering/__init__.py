"""The steps of an answer that know the configuration and the generation; search.py says in which order."""
