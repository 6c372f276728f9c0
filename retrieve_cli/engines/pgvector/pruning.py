"""Searches of postings that read those of common terms only as far as they can still change the list.

The postings of a term stand in blocks, highest weights first. A block knows its highest weight (`high`), the highest of
those after it (`rest`), and how much of the bound on what is left each of its postings takes away (`slope`; never more
than that of the block before it, so that blocks in order of slope are a beginning of every term's postings). With the
query's weights these add up: rows that occur in none of the blocks read so far score at most the sum of each term's
`rest`. One statement, of which every step reads numbers that hardly depend on how many rows there are:

    asked       terms of the query, with their weights
    blocks      blocks of these terms, without their contents: one in a thousand postings
    whole       few postings (a small index, rare terms) are added up at once, and what follows finds nothing to do
    ranked      blocks, steepest first; `bound`: what unread rows may score before this block is read
    pool        best rows of the first 10,000 postings
    threshold   the score, from their own terms, of the last row of the list if the list were from the pool: that of the
                true list's last row is not below it, and about 10 % above it
    taken       blocks until unread rows cannot have more than 0.4 of the threshold
    candidates  rows in these blocks whose sum, with all that they may have in blocks not read, reaches the threshold

and then the candidates' scores, from their own terms. The list is exact. The share of 0.4 trades postings (0.2 µs each)
for candidates (8 µs each): of 400,000 generated rows and 540,000 postings of a query, 95,000 are read and 1,000 rows
scored at 0.3, 61,000 and 2,600 at 0.5, 20,000 and 18,000 at 1.

Tried and slower: ranges of rows with the highest weight of each term in each (of 64 rows, a quarter of the ranges is
skipped for a list of 250); `unnest` in FROM, which stores all before it returns the first (four times as slow as in the
list of columns); look-ups of rows by a join instead of `ANY` of an array (four times). No faster: adding up only rows
that occur where unread ones could still reach the threshold; blocks that begin small and double.

If the pool has too few rows that pass a condition, the answer is empty, and all postings have to be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.engines.pgvector.connections import statement

if TYPE_CHECKING:
    from psycopg.sql import Composed, Identifier

MOST_PRUNED = 1000
"""Longest list that is searched for in this way: of longer ones most postings count."""


def pruned(table: Identifier, postings: Identifier, *, condition: Composed, restricted: bool) -> Composed:
    """Return a query for the best rows and their scores: the whole list, or nothing if all postings have to be read.

    `%(limit)s` is at most `MOST_PRUNED`, `%(pooled)s` the number of rows looked up for each row of the list. Weights of
    the query are not negative. `condition` is on a row of the table.
    """
    kept = statement(
        '("row" IN (SELECT "row" FROM {table} WHERE "row" = ANY((SELECT array_agg("row") FROM whole)::integer[])'
        " AND ({condition}) IS TRUE)) IS TRUE",
        table=table,
        condition=condition,
    )
    return statement(
        """
        WITH {asked},
        blocks AS MATERIALIZED (
            SELECT p.term, p.block, q.weight, q.weight * p.rest AS rest, q.weight * (p.high - p.rest) AS gain,
                q.weight * p.slope AS slope, cardinality(p.rows) AS size, sum(cardinality(p.rows)) OVER () AS total
            FROM asked AS q JOIN {postings} AS p USING (term)),
        whole AS MATERIALIZED (
            SELECT "row", sum(weight * factor) AS score FROM (
                SELECT unnest(p.rows) AS "row", unnest(p.weights) AS weight, b.weight AS factor
                FROM blocks AS b JOIN {postings} AS p USING (term, block) WHERE b.total <= 10000) AS u
            GROUP BY "row"),
        ranked AS MATERIALIZED (
            SELECT *, sum(gain) OVER (ORDER BY slope, term DESC, block DESC) AS bound,
                sum(size) OVER (ORDER BY slope DESC, term, block) - size AS before
            FROM blocks WHERE total > 10000),
        pool AS MATERIALIZED (
            SELECT "row" FROM (
                SELECT unnest(p.rows) AS "row", unnest(p.weights) AS weight, b.weight AS factor
                FROM ranked AS b JOIN {postings} AS p USING (term, block)
                WHERE b.before < greatest(10000, 20 * %(limit)s)) AS u
            GROUP BY "row" ORDER BY sum(weight * factor) DESC LIMIT %(pooled)s * %(limit)s),
        threshold AS MATERIALIZED (
            SELECT score - 1e-6 * abs(score) AS score FROM ({pooled}) AS own
            ORDER BY own.score DESC OFFSET %(limit)s - 1 LIMIT 1),
        taken AS MATERIALIZED (
            SELECT term, block, weight, min(rest) OVER (PARTITION BY term) AS rest FROM ranked
            WHERE bound >= 0.4 * (SELECT score FROM threshold)),
        candidates AS MATERIALIZED (
            SELECT "row" FROM (
                SELECT unnest(p.rows) AS "row", unnest(p.weights) AS weight, b.weight AS factor, b.rest
                FROM taken AS b JOIN {postings} AS p USING (term, block)) AS u
            GROUP BY "row" HAVING sum(weight * factor - rest) >= (SELECT score FROM threshold) - (
                SELECT coalesce(sum(gain), 0) FROM ranked WHERE bound < 0.4 * (SELECT score FROM threshold)))
        SELECT "row", score FROM whole WHERE {kept} UNION ALL ({listed}) ORDER BY score DESC, "row" LIMIT %(limit)s
        """,
        asked=asked(),
        postings=postings,
        pooled=scores(statement('SELECT array_agg("row") FROM pool'), table=table, condition=condition),
        listed=scores(statement('SELECT array_agg("row") FROM candidates'), table=table, condition=condition),
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

    `rows` is an array, or a query for one. The statement around it has `asked`.
    """
    return statement(
        'SELECT "row", sum(weight * factor) AS score FROM (SELECT own."row", own.weight, q.weight AS factor FROM'
        ' (SELECT "row", unnest(terms) AS term, unnest(weights) AS weight FROM {table} WHERE "row" = ANY(({rows})'
        '::integer[]) AND ({condition}) IS TRUE) AS own JOIN asked AS q USING (term)) AS shared GROUP BY "row"',
        table=table,
        rows=rows,
        condition=condition,
    )


def summed(postings: Identifier, *, restriction: Composed) -> Composed:
    """Return a query for the best rows and their scores that reads all postings of all terms, in whatever order."""
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
