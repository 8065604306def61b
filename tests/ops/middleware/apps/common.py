"""Each application has the same endpoints (`test_guards.py`), and gets its settings by the environment."""

import os
from typing import Any

from postern_tokens import Tokens

PORT = int(os.environ["PORT"])
TOKENS: Any = Tokens(
    os.environ["ISSUER"],
    audience=os.environ["AUDIENCE"].split(),
    ids=os.environ["IDS"].split(),
    introspect_as=("shop", "secret"),
    is_ended=lambda sid: sid == "ended",
    origin=f"http://127.0.0.1:{PORT}",
)
RAN = {"X-Ran": "yes"}
"""The header of an answer of an endpoint of ours."""
