"""`python experiments/lab COMMAND`, from any folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.app import lab as application

application()
