"""`python -m tests.hostile`, from the root of the repository."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.campaign import main

sys.exit(main())
