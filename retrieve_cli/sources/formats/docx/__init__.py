"""Word documents (Office Open XML, ECMA-376), read with the standard library alone."""
