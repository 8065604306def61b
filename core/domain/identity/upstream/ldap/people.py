"""From an entry of a directory by LDAP to a provider's word, and the word while it waits for its browser."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID, uuid5

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.claims import Asserted, stated_address
from core.domain.identity.upstream.ldap.answers import LdapEntry, subject_of
from core.domain.identity.upstream.ldap.credentials import is_readable
from core.domain.identity.upstream.ldap.filters import is_attribute
from core.domain.identity.upstream.ldap.settings import LdapSettings, ldap_issuer
from core.domain.json import Json
from core.frozen import values_of

_MOST_VALUES: Final = 50


def read_attributes(settings: LdapSettings, mapping: Mapping[str, str]) -> Sequence[str]:
    """The attributes that a sign-in reads."""
    return list(dict.fromkeys((settings.identity_attribute.value, settings.address_attribute, *readable(mapping))))


def surveyed_attributes(settings: LdapSettings) -> Sequence[str]:
    """The attributes that a test reads of people."""
    groups = [settings.groups_attribute] if settings.groups_attribute else []
    return [settings.identity_attribute.value, settings.address_attribute, *groups]


def asserted_by_entry(
    provider: UpstreamProviderId, settings: LdapSettings, mapping: Mapping[str, str], entry: LdapEntry, now: datetime
) -> Asserted:
    """The directory vouches for the address, which counts in a domain that its organization has proved. Raises `NotRecognised`."""
    email = stated_address(next(iter(entry.texts(settings.address_attribute)), ""))
    fields: dict[str, Json] = {}
    for attribute, key in readable(mapping).items():
        values = entry.texts(attribute)[:_MOST_VALUES]
        if values:
            fields[key] = values[0] if len(values) == 1 else list(values)
    return Asserted(
        ldap_issuer(provider), subject_of(entry, settings.identity_attribute), email, email != "", fields=fields, authenticated_at=now
    )


def readable(mapping: Mapping[str, str]) -> Mapping[str, str]:
    return {attribute: key for attribute, key in mapping.items() if is_attribute(attribute) and is_readable(attribute)}


def stored_word(asserted: Asserted) -> Mapping[str, Json]:
    """What has to wait for the browser."""
    values = values_of(asserted)
    at = asserted.authenticated_at
    return {
        **{name: values[name] for name in ("issuer", "subject", "email")},
        "fields": dict(asserted.fields),
        "at": None if at is None else at.isoformat(),
    }


def restored_word(kept: Mapping[str, Any]) -> Asserted:
    return Asserted(
        kept["issuer"],
        kept["subject"],
        kept["email"],
        kept["email"] != "",
        fields=kept["fields"],
        authenticated_at=datetime.fromisoformat(kept["at"]),
    )


def counted_person(provider: UpstreamProviderId, *, subject: str = "", name: str = "") -> UUID:
    """Whose wrong passwords are counted together: those of an identity, whatever name somebody types for it, or those of a name that nobody
    has, in any case, width or form.
    """
    if subject:
        return uuid5(provider, f"identity {subject}")
    folded = normalize("NFKC", name).casefold()
    return uuid5(provider, f"name {sha256(folded.encode()).hexdigest()}")
