"""Reads users from realm exports of Keycloak, with the parts of the realm that they need."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from core.domain.formats import Json
from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.foreign_hashes.sources import keycloak_hash
from core.domain.platform.imports.records import (
    ImportedIdentity,
    ImportedPasskey,
    ImportedPerson,
    LeftOut,
    Notes,
    SourceRecord,
    bytes_of,
    hash_of,
    profile_of,
    required_id,
    totp_of,
    totp_of_bytes,
)
from core.domain.secrets import Secret
from core.frozen import Frozen

# Of the providers that Keycloak knows by a name of its own. Microsoft's is not here: it names people differently to each client.
_ISSUERS: Final[Mapping[str, str]] = {"google": "https://accounts.google.com", "github": "https://github.com/login/oauth"}
_EVERYBODYS_ROLES: Final = frozenset({"offline_access", "uma_authorization"})
_TOTP: Final[Mapping[str, Json]] = {"subType": "totp", "digits": 6, "period": 30, "algorithm": "HmacSHA1"}
_LONGEST_CREDENTIAL: Final = 16_384


class Broker(Frozen):
    """A provider to which the realm sent people."""

    issuer: str
    client_id: str


class KeycloakRealm(Frozen, kw_only=True):
    name: str
    brokers: Mapping[str, Broker]
    """By their aliases."""


def broker(content: Json) -> tuple[str, Broker] | None:
    """A provider of the realm, by its alias. None for one whose people nobody else could recognise."""
    record = SourceRecord(content if isinstance(content, Mapping) else {}, Notes())
    alias, kind, settings = record.text("alias"), record.text("providerId"), record.record("config")
    issuer = _ISSUERS.get(kind) or settings.text("issuer")
    return (alias, Broker(issuer, settings.text("clientId"))) if alias and issuer else None


def is_organization(content: Json, alias: str) -> bool:
    return isinstance(content, Mapping) and alias in {content.get("alias"), content.get("name")}


def members(content: Json) -> Iterator[str]:
    """The ids and the user names of an organization's members."""
    listed = content.get("members") if isinstance(content, Mapping) else None
    for one in listed if isinstance(listed, list) else ():
        for key in ("id", "username"):
            if isinstance(one, Mapping) and isinstance(name := one.get(key), str) and name:
                yield name


def is_of_client(content: Json) -> bool:
    """Whether the account is that of a client, which no person has."""
    return isinstance(content, Mapping) and bool(content.get("serviceAccountClientId"))


def person(content: Json, place: str, realm: KeycloakRealm) -> ImportedPerson:
    """Raises `LeftOut`."""
    if not isinstance(content, Mapping):
        raise LeftOut("the entry is no object")
    notes = Notes()
    user = SourceRecord(content, notes)
    name = required_id(user, "id" if content.get("id") is not None else "username")
    if is_of_client(content):
        raise LeftOut("the account of a client, and not of a person")
    attributes = _attributes(user.record("attributes"))
    claims = {
        "given_name": content.get("firstName"),
        "family_name": content.get("lastName"),
        "zoneinfo": attributes.get("zoneinfo"),
        "locale": attributes.get("locale"),
    }
    actions = frozenset(user.texts("requiredActions"))
    if user.text("federationLink"):
        notes.add("password: the person comes from a directory, which keeps it")
    credentials = _Credentials(user, notes, realm, name)
    password = credentials.password()
    if "UPDATE_PASSWORD" in actions and password is not None:
        password = None
        notes.add("password: Keycloak would ask for another one; a new one has to be chosen")
    return ImportedPerson(
        place=place,
        id=name,
        email=user.text("email"),
        email_verified=user.flag("emailVerified") and "VERIFY_EMAIL" not in actions,
        is_disabled=content.get("enabled") is not True,
        profile=profile_of(claims, notes),
        username=user.text("username"),
        password=password,
        totp=credentials.totp(),
        passkeys=credentials.passkeys(),
        identities=_identities(user.records("federatedIdentities"), realm, notes),
        roles=tuple(one for one in user.texts("realmRoles") if one not in _EVERYBODYS_ROLES | {f"default-roles-{realm.name.lower()}"}),
        teams=tuple(dict.fromkeys(one.strip("/") for one in user.texts("groups") if one.strip("/"))),
        service_roles=_service_roles(user.record("clientRoles")),
        fields={key: value for key, value in attributes.items() if key not in {"locale", "zoneinfo"}},
        notes=notes.all,
    )


class _Credentials:
    """The credentials of one person, by their types. What they hold are texts of JSON."""

    def __init__(self, user: SourceRecord, notes: Notes, realm: KeycloakRealm, name: str) -> None:
        self._all = user.records("credentials")
        self._notes = notes
        self._realm = realm
        self._handle = name.encode("utf-8", "surrogatepass")
        for one in self._all:
            if one.text("type") not in _KNOWN:
                notes.add(f"{one.text('type') or 'a credential'}: stays behind")

    def password(self) -> ForeignHash | None:
        found = self._of("password")
        if len(found) > 1:
            self._notes.add("password: there are several; the first counts")
        if not found:
            return None
        one = found[0]
        if one.content.get("value") is not None:
            self._notes.add("password: is no hash; a new one has to be chosen")
            return None
        if one.flag("temporary"):
            self._notes.add("password: was to be used once; a new one has to be chosen")
            return None
        return hash_of(keycloak_hash, self._notes, _inner(one, "credentialData").content, _inner(one, "secretData").content)

    def totp(self) -> Secret | None:
        found = self._of("otp")
        if len(found) > 1:
            self._notes.add("second factor: there are several authenticator apps; the first counts")
        if not found:
            return None
        told, kept = _inner(found[0], "credentialData"), _inner(found[0], "secretData")
        if any(told.content.get(name, usual) != usual for name, usual in _TOTP.items()):
            self._notes.add("second factor: only codes by time, of 6 digits, every 30 seconds, by SHA-1 are checked here; it stays behind")
            return None
        value = kept.text("value")
        if told.text("secretEncoding").upper() == "BASE32":
            return totp_of(value, self._notes)
        # Keycloak takes the letters of the text for the secret.
        return totp_of_bytes(value.encode("utf-8", "surrogatepass"), self._notes)

    def passkeys(self) -> tuple[ImportedPasskey, ...]:
        made = (self._passkey(one) for kind in ("webauthn", "webauthn-passwordless") for one in self._of(kind))
        return tuple(one for one in made if one is not None)

    def _passkey(self, one: SourceRecord) -> ImportedPasskey | None:
        told = _inner(one, "credentialData")
        credential = bytes_of(told.text("credentialId", _LONGEST_CREDENTIAL))
        key = bytes_of(told.text("credentialPublicKey", _LONGEST_CREDENTIAL))
        count = told.content.get("counter", 0)
        if credential is None or key is None or isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**32:
            self._notes.add("passkey: the credential is malformed")
            return None
        try:
            model = UUID(told.text("aaguid"))
        except ValueError:
            model = UUID(int=0)
        return ImportedPasskey(
            credential_id=credential,
            public_key=key,
            sign_count=count,
            name=one.text("userLabel"),
            aaguid=model,
            transports=told.texts("transports"),
            user_handle=self._handle,
            is_second_factor=one.text("type") == "webauthn",
        )

    def _of(self, kind: str) -> Sequence[SourceRecord]:
        return [one for one in self._all if one.text("type") == kind]


_KNOWN: Final = frozenset({"password", "otp", "webauthn", "webauthn-passwordless"})


def _inner(credential: SourceRecord, key: str) -> SourceRecord:
    text = credential.text(key, _LONGEST_CREDENTIAL)
    try:
        content = json.loads(text) if text else None
    except (ValueError, RecursionError):
        content = None
    return SourceRecord(content if isinstance(content, Mapping) else {}, credential.notes)


def _attributes(attributes: SourceRecord) -> Mapping[str, Json]:
    """Each attribute is a list, mostly of one text."""
    return {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in list(attributes.content.items())[:_MOST_ATTRIBUTES]
    }


_MOST_ATTRIBUTES: Final = 200


def _identities(linked: Sequence[SourceRecord], realm: KeycloakRealm, notes: Notes) -> tuple[ImportedIdentity, ...]:
    found: list[ImportedIdentity] = []
    for one in linked:
        alias, subject = one.text("identityProvider"), one.text("userId")
        known = realm.brokers.get(alias)
        if known is None or not subject:
            notes.add(f"identity at {alias or 'a provider'}: its issuer is not known; it stays behind")
            continue
        name = one.text("userName")
        found.append(ImportedIdentity(known.issuer, subject, name if "@" in name else "", known.client_id))
    return tuple(found)


def _service_roles(roles: SourceRecord) -> tuple[tuple[str, str], ...]:
    clients = [client for client in roles.content if client not in BUILT_IN_CLIENTS]
    return tuple((client, role) for client in clients[:_MOST_ATTRIBUTES] for role in roles.texts(client))


BUILT_IN_CLIENTS: Final = frozenset({"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"})
