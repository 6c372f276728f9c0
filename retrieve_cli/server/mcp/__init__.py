"""The Model Context Protocol, 2026-07-28 and the revisions before it: tools, resources and prompts over an index.

https://modelcontextprotocol.io/specification/2026-07-28
"""
