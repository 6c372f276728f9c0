"""`retrieve`: hybrid search over catalogs and folders of documents, fully offline. This is the plan of the package.

    in :  sources -> Record -> chunking -> Chunk -> encoders -> retriever writers -> storage: generations/<id>/
    out:  Request -> queries -> Query -> Pipeline -> Ranking -> Answer -> output

Indexing (`ingest/`) and searching (`search/`) each read top to bottom in that order and meet only in storage. A room
imports only from rooms below it; rooms in one line do not know one another. tests/program/test_structure.py reads this
list and holds every import to it.

    __main__        python -m retrieve_cli
    cli             one file per command: parse, call, print
    serving         HTTP: thin adapters over search and the models
    experiments     what is done with judged queries: evaluate, compare, ablate, tune, calibrate, report
    doctor          what is wrong and the command that fixes it
    snapshots       a generation as one file: create, list, verify, restore
    inspect         status, records, files, why, history, diff, verify, the log of queries
    output          Answer -> text, table, json, jsonl, csv, md, trec; the journal of runs
    models          which models the stages need; list, pull, verify, export
    search ingest   Request -> Answer over the current generation; sources -> published generation
    assemble        settings -> parts: names the concrete sources, encoders, retrievers and rerankers
    sources chunking encoders retrievers graph queries stages evaluation records
    storage web config
    untrusted       files and YAML from outside, read within bounds of kind, size and depth
    terms           names that catalogs, files and people use for the same thing: tenants, modalities, licences, numbers
    contracts       what flows and what is promised
    numerics        arithmetic with the same bits whatever stands beside a row
    progress        long work as named tasks: how much is done, of how much, how fast
    frozen          dataclasses that are quick to define
    errors          every failure a user can act on
"""

__version__ = "0.1.0"
