"""HTTP server: thin adapters over one searcher, and over the models.

    request -> caller (credential, tenant) -> Asked -> pool -> LiveIndex -> Answer -> the shape of the door

`app.py` lists the doors; each is a file with `router(state)`. A door has no logic: api/ reads requests, output/
writes answers.
"""
