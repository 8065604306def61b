"""The settings of an organization's own provider, as the columns `saml` and `ldap` have them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from core.domain.identity.upstream.connections import SamlSettings
from core.domain.identity.upstream.ldap.settings import LdapSettings

# The number of providers with a sign-in in a busy minute. The cache keeps as many texts.
_READ: Final = 256


@lru_cache(maxsize=_READ)
def saml_settings(text: str | None) -> SamlSettings | None:
    """Reads `saml::text`, which is null for any other kind. The text is the same for each sign-in, so it is parsed once."""
    return None if text is None else msgspec.json.decode(text, type=SamlSettings)


@lru_cache(maxsize=_READ)
def ldap_settings(text: str | None) -> LdapSettings | None:
    """Reads `ldap::text`, which is null for any other kind."""
    return None if text is None else msgspec.json.decode(text, type=LdapSettings)


def kept_settings(settings: SamlSettings | LdapSettings) -> Mapping[str, Any]:
    kept: Mapping[str, Any] = msgspec.to_builtins(settings)
    return kept
