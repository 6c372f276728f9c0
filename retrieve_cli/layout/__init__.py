"""Structure of a document's text, and its places on pages: blocks, pages, words with boxes."""
