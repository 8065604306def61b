"""The SAML settings of an organization's own provider, as the column `saml` has them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from core.domain.identity.upstream.connections import SamlSettings

# The number of providers with a sign-in in a busy minute. The cache keeps as many texts.
_READ: Final = 256


@lru_cache(maxsize=_READ)
def saml_settings(text: str | None) -> SamlSettings | None:
    """Reads `saml::text`, which is null for a provider of OpenID Connect. The text is the same for each sign-in, so it is parsed once."""
    return None if text is None else msgspec.json.decode(text, type=SamlSettings)


def kept_settings(settings: SamlSettings) -> Mapping[str, Any]:
    kept: Mapping[str, Any] = msgspec.to_builtins(settings)
    return kept
