"""Failed assertions of the engine suite are explained as those of test files."""

import pytest

for name in ("suite", "suite_generations", "suite_contents", "suite_answers", "suite_base"):
    pytest.register_assert_rewrite(f"engines.{name}")
