"""HTTP server: thin adapters over one searcher, and over the models.

    request -> caller (credential, tenant) -> Asked -> pool -> LiveIndex -> Answer -> the shape of the door

`app.py` lists the doors; each is a file with `router(state)`. A door that needs logic of its own has it in the wrong
package: what a request means is read in api/, how an answer is written in output/.
"""
