"""The names of those who make authenticators. A name is what the authenticator says of itself, and decides nothing."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final
from uuid import UUID

_MAKERS: Final = Path(__file__).parent / "passkey_makers.toml"


def maker_named(aaguid: UUID) -> str:
    """Empty for an authenticator that does not say, and for one that is not in the list."""
    return _makers().get(str(aaguid), "")


@lru_cache(maxsize=1)
def _makers() -> Mapping[str, str]:
    return tomllib.loads(_MAKERS.read_text("utf-8"))
