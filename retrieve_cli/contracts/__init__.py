"""Nouns and promises of the program: the data that flows through it, and the interfaces of its parts. Read this first.

The nouns are frozen and hold plain values; the promises are protocols. These files import only the standard library and
`frozen`, and name the types of `layout`. The promises of engines, which few queries need, are in `engines.py`.

    in :  Source -> Record -> Chunker -> Chunk -> Encoder -> vectors -> Index -> store (or an engine)
    out:  Query -> Stage ... Stage -> Ranking of Hits, each with its Evidence
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.contracts.models import (
    Analyzer as Analyzer,
    Chunker as Chunker,
    Encoder as Encoder,
    FacetAnswer as FacetAnswer,
    FacetMaker as FacetMaker,
    GradualEncoder as GradualEncoder,
    GradualSparseEncoder as GradualSparseEncoder,
    ModelCard as ModelCard,
    Package as Package,
    PairScorer as PairScorer,
    Passages as Passages,
    Plugin as Plugin,
    Scaled as Scaled,
    SharingPasses as SharingPasses,
    SparseEncoder as SparseEncoder,
    TermWeights as TermWeights,
    TokenEncoder as TokenEncoder,
    Tokenizer as Tokenizer,
    TokenVectors as TokenVectors,
)
from retrieve_cli.contracts.records import (
    Chunk as Chunk,
    Countable as Countable,
    DocumentFile as DocumentFile,
    DocumentReader as DocumentReader,
    Fetched as Fetched,
    Field as Field,
    Filed as Filed,
    Foldered as Foldered,
    Holding as Holding,
    Item as Item,
    Mapped as Mapped,
    Mixed as Mixed,
    Notice as Notice,
    Parsed as Parsed,
    Reading as Reading,
    Record as Record,
    Refused as Refused,
    SingleFile as SingleFile,
    Source as Source,
    Watched as Watched,
)
from retrieve_cli.contracts.searching import (
    LOWERED as LOWERED,
    NAMED as NAMED,
    NOT_PICKED as NOT_PICKED,
    VARIANT as VARIANT,
    Candidates as Candidates,
    Evidence as Evidence,
    Examples as Examples,
    FileHead as FileHead,
    Hit as Hit,
    Index as Index,
    Joint as Joint,
    KnownFile as KnownFile,
    Matches as Matches,
    Matching as Matching,
    Query as Query,
    Question as Question,
    Ranking as Ranking,
    RemoteIndex as RemoteIndex,
    Request as Request,
    Reranked as Reranked,
    Stage as Stage,
)
from retrieve_cli.contracts.values import (
    HEAD as HEAD,
    HIGHEST_BOOST as HIGHEST_BOOST,
    LONGEST_FACET as LONGEST_FACET,
    Card as Card,
    Freshness as Freshness,
    Json as Json,
    Kind as Kind,
    Q_contra as Q_contra,
    SourceKind as SourceKind,
    Unit as Unit,
)

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Mask as Mask, Rows as Rows, Terms as Terms, Vectors as Vectors
from retrieve_cli.contracts.wording import Correction as Correction, Spelling as Spelling, Worded as Worded
