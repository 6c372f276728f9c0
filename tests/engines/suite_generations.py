"""Promises on generations: staging, alias, removal."""

from __future__ import annotations

import numpy as np
import pytest
from engines.contents import DIM, GENERATION, OTHER, TERMS, VECTORS, Content, content, put, send
from engines.suite_base import Base, NewEngine, same, vector, words

from retrieve_cli.assemble.engines import lost
from retrieve_cli.contracts.engines import Engine
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, FlatVectors
from retrieve_cli.storage.engine_record import Entry


class GenerationSuite(Base):
    """Tests of generations."""

    def test_a_server_that_answers_has_no_generations_and_no_problems(self, engine: Engine) -> None:
        assert (list(engine.generations()), engine.live(), list(engine.problems())) == ([], None, [])
        assert all(isinstance(fact, str) for fact in engine.describe().values())

    @pytest.mark.parametrize("rows", [0, 1])
    def test_a_generation_may_have_no_row_or_one(self, engine: Engine, rows: int) -> None:
        made = content(rows)
        opened = self.opened(engine, made)
        if self.has_vectors:
            index = self.vector_index(engine, opened, made)
            reference = DenseIndex([FlatVectors(index.vectors(np.arange(rows)).reshape(rows, DIM))])
            (found,) = index.search([vector(1)], depth=5)
            (wanted,) = reference.search([vector(1)], depth=5)
            assert same(found, wanted)
            assert len(opened.vectors(VECTORS).nearest(vector(1), 5)[0]) == rows
        if self.has_terms:
            (found,) = self.term_index(engine, opened, made).search([words(1)], depth=5)
            assert same(found, made.sparse.search([words(1)], depth=5)[0])
            assert len(opened.terms(TERMS).nearest(words(1), 5)[0]) <= rows

    def test_rows_put_twice_and_out_of_order_count_once(self, engine: Engine, made: Content) -> None:
        staging = engine.stage(GENERATION, self.parts(made))
        put(staging, content(len(made), seed=1), self.parts(made), np.arange(20))
        for start in (40, 20, 0, 20, 40, 0):
            put(staging, made, self.parts(made), np.arange(start, start + 20))
        staging.finish()
        staging.close()
        opened = engine.open(GENERATION)
        if self.has_vectors:
            assert np.allclose(opened.vectors(VECTORS).vectors(np.arange(60)), made.vectors, atol=1e-3)
        if self.has_terms:
            every = made.sparse.matching(words(2))
            assert opened.terms(TERMS).matching(np.sort(words(2).terms), len(made)).tolist() == every.tolist()

    def test_a_staging_that_stopped_goes_on(self, new_engine: NewEngine, engine: Engine, made: Content) -> None:
        first = engine.stage(GENERATION, self.parts(made))
        put(first, made, self.parts(made), np.arange(30))
        first.close()
        again = new_engine()
        second = again.stage(GENERATION, self.parts(made))
        put(second, made, self.parts(made), np.arange(30, 60))
        second.finish()
        second.close()
        assert {again.open(GENERATION).count(part.name) for part in self.parts(made)} == {60}
        again.close()

    def test_missing_rows_are_found_before_a_generation_is_complete(self, engine: Engine, made: Content) -> None:
        staging = engine.stage(GENERATION, self.parts(made))
        put(staging, made, self.parts(made), np.delete(np.arange(60), 31))
        with pytest.raises(IndexCorrupt):
            staging.finish()
        staging.close()
        assert [(each.generation, each.complete) for each in engine.generations()] == [(GENERATION, False)]

    def test_an_incomplete_generation_is_neither_opened_nor_published(self, engine: Engine, made: Content) -> None:
        engine.stage(GENERATION, self.parts(made)).close()
        for forbidden in (engine.open, engine.publish):
            for generation in (GENERATION, OTHER):
                with pytest.raises(IndexCorrupt):
                    forbidden(generation)
        assert engine.live() is None

    def test_a_half_staged_generation_is_dropped_without_a_trace(self, engine: Engine, made: Content) -> None:
        staging = engine.stage(GENERATION, self.parts(made))
        put(staging, content(60, seed=1), self.parts(made), np.arange(60))
        staging.close()
        engine.drop(GENERATION)
        engine.drop(GENERATION)
        assert list(engine.generations()) == []
        opened = self.opened(engine, made)
        if self.has_vectors:
            assert np.allclose(opened.vectors(VECTORS).vectors(np.arange(60)), made.vectors, atol=1e-3)

    def test_a_generation_of_other_parts_is_dropped_before_it_is_staged_again(self, engine: Engine) -> None:
        send(engine, content(50), self.parts(content(50)))
        made = content(40, seed=2)
        staging = engine.stage(GENERATION, self.parts(made))
        assert [each.complete for each in engine.generations()] == [False]
        staging.close()
        opened = self.opened(engine, made)
        assert {opened.count(part.name) for part in self.parts(made)} == {40}

    def test_a_complete_generation_stays_when_it_is_staged_again(self, engine: Engine, made: Content) -> None:
        send(engine, made, self.parts(made))
        staging = engine.stage(GENERATION, self.parts(made))
        assert [each.complete for each in engine.generations()] == [True]
        staging.finish()
        staging.close()
        opened = engine.open(GENERATION)
        assert {opened.count(part.name) for part in self.parts(made)} == {60}

    def test_the_alias_names_the_generation_published_last(self, engine: Engine, made: Content) -> None:
        for generation in (OTHER, GENERATION):
            send(engine, made, self.parts(made), generation=generation)
        seen = [engine.live()]
        for generation in (GENERATION, OTHER, OTHER):
            engine.publish(generation)
            seen.append(engine.live())
        assert seen == [None, GENERATION, OTHER, OTHER]
        assert [tuple(each) for each in engine.generations()] == [(GENERATION, True, False), (OTHER, True, True)]
        engine.drop(GENERATION)
        assert (engine.live(), len(engine.generations())) == (OTHER, 1)
        engine.drop(OTHER)
        assert (engine.live(), len(engine.generations())) == (None, 0)

    def test_readers_of_two_generations_each_see_their_own(self, new_engine: NewEngine, engine: Engine) -> None:
        older, newer = content(80, seed=3), content(70, seed=4)
        readers = [(self.opened(engine, older, OTHER), older)]
        engine.publish(OTHER)
        second = new_engine()
        readers.append((self.opened(second, newer), newer))
        second.publish(GENERATION)
        for opened, made in readers:
            rows = np.arange(len(made))
            if self.has_vectors:
                assert np.allclose(opened.vectors(VECTORS).vectors(rows), made.vectors, atol=1e-3)
                found, _ = opened.vectors(VECTORS).nearest(vector(1), 100, exact=True)
                assert sorted(found.tolist()) == rows.tolist()
            if self.has_terms:
                stored = opened.terms(TERMS).matching(np.sort(words(2).terms), len(made))
                assert stored.tolist() == made.sparse.matching(words(2)).tolist()
        engine.drop(OTHER)
        assert [each.generation for each in second.generations()] == [GENERATION]
        second.close()

    def test_rows_of_another_generation_are_copied(self, engine: Engine, made: Content) -> None:
        if not engine.capabilities.copies:
            pytest.skip("the engine does not copy rows")
        send(engine, made, self.parts(made), generation=OTHER)
        moved, rows = np.arange(60)[::-1], np.arange(60)
        staging = engine.stage(GENERATION, self.parts(made))
        for part in self.parts(made):
            staging.copy(part.name, OTHER, rows, moved, [made.labels[row] for row in moved.tolist()])
        staging.finish()
        staging.close()
        new, old = engine.open(GENERATION), engine.open(OTHER)
        if self.has_vectors:
            copied, stored = (each.vectors(VECTORS).vectors(rows) for each in (new, old))
            assert np.allclose(copied, stored[moved], atol=1e-6)
        if self.has_terms:
            used = np.sort(words(2).terms)
            matching = np.sort(59 - old.terms(TERMS).matching(used, 60))
            assert new.terms(TERMS).matching(used, 60).tolist() == matching.tolist()

    def test_whatever_a_server_loses_is_counted_and_sent_again(self, new_engine: NewEngine, made: Content) -> None:
        def sent() -> Entry:
            engine = new_engine()
            staging = engine.stage(GENERATION, self.parts(made))
            for part in self.parts(made):
                put(staging, made, [part], np.arange(len(made)))
            staging.finish()
            staging.close()
            engine.publish(GENERATION)
            engine.close()
            return Entry(engine.card, self.parts(made))

        def fault(entry: Entry) -> str:
            engine = new_engine()
            try:
                return lost(engine, entry, GENERATION) or ("" if engine.live() == GENERATION else "it is not current")
            finally:
                engine.close()

        entry = sent()
        names = sorted(self.losses())
        if not names:
            pytest.skip("the subclass has no method `losses`")
        assert fault(entry) == ""
        for name in names:
            self.losses()[name]()
            assert fault(entry), name
            engine = new_engine()
            engine.drop(GENERATION)
            engine.close()
            assert fault(sent()) == "", name
