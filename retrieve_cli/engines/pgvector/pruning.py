"""Searches that read the postings of common terms only as far as they can still change the list.

The postings of a term are in blocks, highest weights first. A block knows its highest weight (`high`), the highest
weight after it (`rest`), and how much each of its postings lowers the bound on unread rows (`slope`; never more than
in the block before it, so that blocks in order of slope are a beginning of every term's postings). With the
query's weights these add up: rows that occur in none of the blocks read so far score at most the sum of each term's
`rest`. One statement, of which every step reads numbers that hardly depend on how many rows there are:

    asked       terms of the query, with their weights
    blocks      blocks of these terms, without their contents: one in a thousand postings
    whole       few postings (a small index, rare terms) are added up at once, and what follows finds nothing to do
    ranked      blocks, steepest first; `bound`: what unread rows may score before this block is read
    pool        best rows of the first 5,000 postings (10,000 under a condition)
    pooled      scores of those that pass the condition, from their own terms
    threshold   the last score of the list if the list were from the pool: the last score of the true list is not
                below it, and about 8 % above it
    taken       blocks until unread rows cannot have more than half of the threshold
    passing     all rows that pass, if fewer of the pool do than the list has: then the condition is selective
    candidates  rows in the blocks taken whose sum, with all that they may have in blocks not read, reaches the
                threshold; or those that pass, if they are few

and then the scores of the candidates that are not in the pool, from their own terms. The list is exact. If the answer
is empty, more rows pass than are scored one by one, but few of the best: all postings have to be read.

The half trades postings (0.3 µs each, most of it for a new row in the hash table) for look-ups of rows (4 µs each, half
of it for the row and half for ten terms): of 400,000 generated rows and 550,000 postings of a query, 100,000 are read
and 2,000 rows looked up at 0.4 of the threshold, 65,000 and 4,000 at 0.5, 40,000 and 8,000 at 0.6. A pool of three rows
for each of the list takes a fifth less time than one of six, whose threshold is higher; so does one of two, but for
queries of common words.

Tried and slower: ranges of rows with the highest weight of each term in each (of 64 rows, a quarter of the ranges is
skipped for a list of 250); `unnest` in FROM, which stores all before it returns the first (four times as slow as in the
list of columns); joining the rows' own terms, unnested, with the query's terms (9 µs a row; `width_bucket` searches an
ascending array); sorting postings instead of a hash table. No faster: adding up only rows that occur where unread ones
could still reach the threshold; blocks that begin small and double; a second threshold, from the best candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.engines.pgvector.connections import statement
from retrieve_cli.engines.pgvector.tables import number

if TYPE_CHECKING:
    from psycopg.sql import Composed, Identifier

MOST_PRUNED = 1000
"""Longest list that is searched for in this way: of longer ones most postings count."""
MOST_SCORED = 20_000
"""Rows that are scored from their own terms because no others pass a condition; for more, postings are faster."""
_PRUNED = """
WITH {asked},
blocks AS MATERIALIZED (
    SELECT p.term, p.block, q.weight, q.weight * p.rest AS rest, q.weight * (p.high - p.rest) AS gain,
        q.weight * p.slope AS slope, cardinality(p.rows) AS size, sum(cardinality(p.rows)) OVER () AS total
    FROM asked AS q JOIN {postings} AS p USING (term)),
whole AS MATERIALIZED (
    SELECT "row", sum(weight * factor) AS score FROM (
        SELECT unnest(p.rows) AS "row", unnest(p.weights) AS weight, b.weight AS factor
        FROM blocks AS b JOIN {postings} AS p USING (term, block) WHERE b.total <= {few}) AS u
    GROUP BY "row"),
ranked AS MATERIALIZED (
    SELECT *, sum(gain) OVER (ORDER BY slope, term DESC, block DESC) AS bound,
        sum(size) OVER (ORDER BY slope DESC, term, block) - size AS before
    FROM blocks WHERE total > {few}),
pool AS MATERIALIZED (
    SELECT "row" FROM (
        SELECT unnest(p.rows) AS "row", unnest(p.weights) AS weight, b.weight AS factor
        FROM ranked AS b JOIN {postings} AS p USING (term, block)
        WHERE b.before < greatest({first}, 20 * %(limit)s)) AS u
    GROUP BY "row" ORDER BY sum(weight * factor) DESC LIMIT {lookups} * %(limit)s),
pooled AS MATERIALIZED ({pooled}),
threshold AS MATERIALIZED (
    SELECT score - 1e-6 * abs(score) AS score FROM pooled
    ORDER BY pooled.score DESC OFFSET %(limit)s - 1 LIMIT 1),
taken AS MATERIALIZED (
    SELECT term, block, weight, min(rest) OVER (PARTITION BY term) AS rest FROM ranked
    WHERE bound >= 0.5 * (SELECT score FROM threshold)),
passing AS MATERIALIZED (
    SELECT "row" FROM {table} WHERE EXISTS (SELECT FROM pool) AND NOT EXISTS (SELECT FROM threshold)
    AND {condition} LIMIT {most} + 1),
candidates AS MATERIALIZED (
    SELECT "row" FROM (
        SELECT unnest(p.rows) AS "row", unnest(p.weights) AS weight, b.weight AS factor, b.rest
        FROM taken AS b JOIN {postings} AS p USING (term, block)) AS u
    GROUP BY "row" HAVING sum(weight * factor - rest) >= (SELECT score FROM threshold) - (
        SELECT coalesce(sum(gain), 0) FROM ranked WHERE bound < 0.5 * (SELECT score FROM threshold))
    UNION ALL SELECT "row" FROM passing WHERE (SELECT count(*) FROM passing) <= {most})
SELECT "row", score FROM whole WHERE {kept} UNION ALL SELECT * FROM pooled WHERE EXISTS (SELECT FROM candidates)
UNION ALL ({listed}) ORDER BY score DESC, "row" LIMIT %(limit)s
"""
"""The search that the text of this module describes."""


def pruned(table: Identifier, postings: Identifier, *, condition: Composed, restricted: bool) -> Composed:
    """Return a query for the best rows and their scores: the whole list, or nothing if all postings have to be read.

    `%(limit)s` is at most `MOST_PRUNED`. Weights of the query are not negative. `condition` is on a row of the table,
    and every row passes it unless `restricted`.
    """
    kept = statement(
        '("row" IN (SELECT "row" FROM {table} WHERE "row" = ANY((SELECT array_agg("row") FROM whole)::integer[])'
        " AND ({condition}) IS TRUE)) IS TRUE",
        table=table,
        condition=condition,
    )
    unpooled = statement('SELECT array_agg("row") FROM candidates WHERE "row" NOT IN (SELECT "row" FROM pool)')
    return statement(
        _PRUNED,
        asked=asked(),
        table=table,
        postings=postings,
        condition=condition,
        # A condition on so many rows would be dearer than the look-ups that it takes to read fewer postings.
        few=number(10_000 if restricted else 30_000),
        first=number(10_000 if restricted else 5_000),
        lookups=number(12 if restricted else 3),  # rows for each row of the list; enough if a twelfth of them pass
        most=number(MOST_SCORED),
        pooled=scores(statement('SELECT array_agg("row") FROM pool'), table=table, condition=condition),
        listed=scores(unpooled, table=table, condition=condition),
        kept=kept if restricted else statement("true"),
    )


def asked() -> Composed:
    """Return the terms of the query with their weights, as a query for WITH."""
    return statement(
        "asked AS MATERIALIZED (SELECT term, weight::double precision"
        " FROM unnest(%(terms)b::integer[], %(weights)b::real[]) AS a (term, weight))"
    )


def scores(rows: Composed, *, table: Identifier, condition: Composed) -> Composed:
    """Return a query for the scores of rows that pass a condition, from their own terms; without those that share none.

    `rows` is an array, or a query for one. The statement around it has `asked`. Terms of a row ascend. Long arrays are
    decompressed once, not for each term of the query: appending nothing does that, and OFFSET keeps it in its place.
    """
    return statement(
        'SELECT "row", score FROM (SELECT "row", (SELECT sum(own.weights[width_bucket(q.term, own.terms)] * q.weight)'
        " FROM asked AS q WHERE own.terms[width_bucket(q.term, own.terms)] = q.term) AS score FROM"
        """ (SELECT "row", terms || '{{}}'::integer[] AS terms, weights || '{{}}'::real[] AS weights FROM {table}"""
        ' WHERE "row" = ANY(({rows})::integer[]) AND ({condition}) IS TRUE OFFSET 0) AS own OFFSET 0) AS scored'
        " WHERE score IS NOT NULL",
        rows=rows,
        table=table,
        condition=condition,
    )


def summed(postings: Identifier, *, restriction: Composed) -> Composed:
    """Return a query for the best rows and their scores that reads all postings of all terms, in any order."""
    return statement(
        'WITH {asked} SELECT "row", sum(weight * factor) AS score FROM (SELECT unnest(p.rows) AS "row",'
        " unnest(p.weights) AS weight, q.weight AS factor FROM asked AS q JOIN {postings} AS p USING (term)) AS u"
        ' WHERE {restriction} GROUP BY "row" ORDER BY score DESC, "row" LIMIT %(limit)s',
        asked=asked(),
        postings=postings,
        restriction=restriction,
    )


def matching(table: Identifier, postings: Identifier, *, condition: Composed, restriction: Composed | None) -> Composed:
    """Return a query for up to `%(limit)s` rows that have one of the terms.

    If the most frequent term has as many, the others are not read. Up to `limit` rows of each are enough: either one
    has as many, or all rows are there. Of the most frequent term four times as many rows are looked up first, so that
    a condition that a quarter of them passes is not evaluated for all rows of the part.
    """
    looked_up = statement(
        'SELECT "row" FROM {table} WHERE "row" = ANY((SELECT array_agg("row") FROM common)::integer[])'
        " AND ({condition}) IS TRUE",
        table=table,
        condition=condition,
    )
    return statement(
        """
        WITH sizes AS MATERIALIZED (
            SELECT term, sum(cardinality(rows)) AS size FROM {postings} WHERE term = ANY(%(terms)b::integer[])
            GROUP BY term),
        common AS MATERIALIZED (
            SELECT unnest(rows) AS "row" FROM {postings}
            WHERE term = (SELECT term FROM sizes ORDER BY size DESC LIMIT 1) LIMIT 4 * %(limit)s),
        most AS MATERIALIZED ({most} LIMIT %(limit)s)
        SELECT "row" FROM most UNION SELECT h."row" FROM sizes AS q, LATERAL (
            SELECT u."row" FROM (
                SELECT unnest(p.rows) AS "row" FROM {postings} AS p
                WHERE p.term = q.term AND (SELECT count(*) FROM most) < %(limit)s) AS u
            WHERE {restriction} LIMIT %(limit)s) AS h
        LIMIT %(limit)s
        """,
        postings=postings,
        most=statement('SELECT "row" FROM common') if restriction is None else looked_up,
        restriction=statement("true") if restriction is None else restriction,
    )


def enough(postings: Identifier, *, otherwise: Composed) -> Composed:
    """Return a query for `%(limit)s` if one of the terms has as many rows, else for the number of another query."""
    return statement(
        "SELECT CASE WHEN %(limit)s <= ANY(SELECT sum(cardinality(rows)) FROM {postings}"
        " WHERE term = ANY(%(terms)b::integer[]) GROUP BY term) THEN %(limit)s ELSE ({otherwise}) END",
        postings=postings,
        otherwise=otherwise,
    )
