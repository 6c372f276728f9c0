"""How thoroughly the laws are tested: `ci`, the same examples every time, or `nightly`, many and new ones.

HYPOTHESIS_PROFILE chooses; `ci` is the default. What is drawn otherwise (where a process is killed) follows TEST_SEED,
which is 0 in `ci` and a new one every night; pytest prints it, and setting it repeats that night.
"""

import os
import secrets

from hypothesis import settings

settings.register_profile("ci", max_examples=30, derandomize=True, deadline=None)  # a busy machine is no defect
settings.register_profile("nightly", max_examples=500, deadline=None, print_blob=True)

NAME = os.environ.get("HYPOTHESIS_PROFILE", "ci")
NIGHTLY = NAME == "nightly"
SEED = int(os.environ.setdefault("TEST_SEED", str(secrets.randbits(32) if NIGHTLY else 0)))  # workers inherit it


def examples(share: float) -> int:
    """So many times as many examples as the profile has: more where one is cheap, fewer where one takes long."""
    return max(1, round(share * settings.get_profile(NAME).max_examples))
