"""Promises on generations: staging, alias, removal."""

from __future__ import annotations

import numpy as np
import pytest
from engines.contents import GENERATION, OTHER, Content, content, put, send
from engines.suite_base import Base, NewEngine

from retrieve_cli.assemble.engines import lost
from retrieve_cli.contracts.engines import Engine
from retrieve_cli.errors import IndexCorrupt
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
        self.expect_all(opened, made)
        for index, query in self.indexes(engine, opened, made):
            (found,) = index.search([query(1)], depth=5)
            (wanted,) = index.local.search([query(1)], depth=5)
            assert (found.rows.tolist(), found.before, found.after) == (
                wanted.rows.tolist(),
                wanted.before,
                wanted.after,
            )

    def test_what_was_staged_before_is_dropped(self, new_engine: NewEngine, engine: Engine) -> None:
        """A staging that was killed, another one at work, or one with other contents: it begins from scratch."""
        older, made = content(50, seed=1), content(40, seed=2)
        put(engine.stage(GENERATION, self.parts(older)), older, self.parts(older), np.arange(30))
        again = new_engine()
        self.expect_all(self.opened(again, made), made)
        again.stage(GENERATION, self.parts(made))
        assert [each.complete for each in engine.generations()] == [False]
        self.expect_all(self.opened(engine, older), older)
        again.close()

    def test_missing_rows_are_found_before_a_generation_is_complete(self, engine: Engine, made: Content) -> None:
        staging = engine.stage(GENERATION, self.parts(made))
        put(staging, made, self.parts(made), np.delete(np.arange(60), 31))
        with pytest.raises(IndexCorrupt):
            staging.finish()
        assert [(each.generation, each.complete) for each in engine.generations()] == [(GENERATION, False)]
        for forbidden in (engine.open, engine.publish):
            for generation in (GENERATION, OTHER):
                with pytest.raises(IndexCorrupt):
                    forbidden(generation)
        assert engine.live() is None
        engine.drop(GENERATION)
        engine.drop(GENERATION)
        assert list(engine.generations()) == []

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
            self.expect_all(opened, made)
        engine.drop(OTHER)
        assert [each.generation for each in second.generations()] == [GENERATION]
        second.close()

    def test_whatever_a_server_loses_is_counted_and_sent_again(self, new_engine: NewEngine, made: Content) -> None:
        def sent() -> Entry:
            engine = new_engine()
            send(engine, made, self.parts(made))
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
            assert fault(sent()) == "", name

    def test_lists_hold_the_best_rows_and_numbers_of_matches(self, engine: Engine) -> None:
        """Also of groups of rows: each is worth its best row."""
        made = content(300)
        opened = self.opened(engine, made)
        for starts in (None, made.starts):
            for index, query in self.indexes(engine, opened, made):
                for seed in range(3):
                    (found,) = index.search([query(seed)], depth=20, starts=starts)
                    (wanted,) = index.local.search([query(seed)], depth=20, starts=starts)
                    assert (found.before, found.after) == (wanted.before, wanted.after)
                    assert np.allclose(found.scores, wanted.scores, rtol=self.precision, atol=1e-4)
                    local = index.score(query(seed), found.rows, starts=starts)
                    assert np.allclose(found.scores, local, rtol=self.precision, atol=1e-4)
