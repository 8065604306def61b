"""Imports from Auth0: users, clients, roles and connections."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from core.domain.formats import Json
from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.foreign_hashes.sources import auth0_hash
from core.domain.platform.imports.clients import ForeignClient, ForeignParts, ForeignRole, addresses, type_of
from core.domain.platform.imports.records import (
    ImportedIdentity,
    ImportedPerson,
    LeftOut,
    Notes,
    SourceRecord,
    hash_of,
    profile_of,
    required_id,
    shown,
    totp_of,
)
from core.domain.secrets import Secret

# The issuers of the social connections that name a person alike to every client.
_ISSUERS: Final[Mapping[str, str]] = {"google-oauth2": "https://accounts.google.com", "github": "https://github.com/login/oauth"}
_DATABASE: Final = "auth0"
_WITH_ROLES: Final = frozenset({"roles", "authorization"})
_CLAIMS: Final = ("name", "given_name", "family_name", "zoneinfo", "locale")


def hash_key(content: Json) -> str:
    """The `user_id` that a line of the file of hashes is about. Empty if it names nobody."""
    if not isinstance(content, Mapping):
        return ""
    record = SourceRecord(content, Notes())
    name = record.text("alt_id") or record.record("_id").text("$oid") or record.text("_id")
    return f"{_DATABASE}|{name}" if name else ""


def person(content: Json, place: str, hashed: Json = None) -> ImportedPerson:
    """Reads a user of the bulk export, with the file of password hashes that Auth0's support provides, or of the format of its bulk import.
    `hashed` is the user's line in the file of hashes. Raises `LeftOut`.
    """
    if not isinstance(content, Mapping):
        raise LeftOut("the entry is no object")
    if "passwordHash" in content and "user_id" not in content:
        raise LeftOut("a line of the file of password hashes: name that file with --hashes")
    notes = Notes()
    user = SourceRecord(content, notes)
    name = required_id(user, "user_id") if content.get("user_id") is not None else _by_address(user)
    email = user.text("email")
    application = user.record("app_metadata")
    told = {key: value for key, value in application.content.items() if key not in _WITH_ROLES}
    metadata = {**told, **user.record("user_metadata").content}
    if content.get("multifactor") and not content.get("mfa_factors"):
        notes.add("second factor: Auth0 does not export it; it stays behind")
    if user.text("phone_number"):
        notes.add("phone_number: there is no sign-in by telephone; it stays behind")
    return ImportedPerson(
        place=place,
        id=name,
        email=email,
        email_verified=_is_verified(user),
        is_disabled=user.flag("blocked"),
        profile=profile_of({claim: _claim(content, claim, email) for claim in _CLAIMS}, notes),
        username=user.text("username"),
        password=_password(user, hashed, notes),
        totp=_totp(user, notes),
        identities=_identities(user, name, email, notes),
        roles=tuple(dict.fromkeys((*user.texts("roles"), *_roles_named(application)))),
        fields=metadata,
        notes=notes.all,
    )


def _roles_named(application: SourceRecord) -> tuple[str, ...]:
    """Rules and the authorization extension keep roles in the metadata that people cannot change themselves."""
    told = application.texts("roles") if isinstance(application.content.get("roles"), list) else ()
    extension = application.content.get("authorization")
    return (*told, *SourceRecord(extension, application.notes).texts("roles")) if isinstance(extension, Mapping) else told


def _by_address(user: SourceRecord) -> str:
    """Files for the bulk import need no id."""
    email = user.text("email")
    if not email:
        raise LeftOut("user_id: is missing, or no text")
    return f"email|{email.casefold()}"[:255]


def _claim(content: Mapping[str, Json], claim: str, email: str) -> Json:
    """Where nobody has given a name, Auth0 writes the address there."""
    value = content.get(claim)
    return None if claim == "name" and isinstance(value, str) and value.casefold() == email.casefold() else value


def _is_verified(user: SourceRecord) -> bool:
    # In tables that were made of an export, words stand in the place of true and false.
    return user.content.get("email_verified") == "true" or user.flag("email_verified")


def _password(user: SourceRecord, hashed: Json, notes: Notes) -> ForeignHash | None:
    for given in (
        hashed.get("passwordHash") if isinstance(hashed, Mapping) else None,
        user.content.get("passwordHash"),
        user.content.get("password_hash"),
        user.content.get("custom_password_hash"),
    ):
        if given is not None:
            return hash_of(auth0_hash, notes, given)
    return None


def _totp(user: SourceRecord, notes: Notes) -> Secret | None:
    secrets = [one.record("totp").text("secret") for one in user.records("mfa_factors") if one.content.get("totp") is not None]
    others = {kind for one in user.records("mfa_factors") for kind in ("phone", "email") if one.content.get(kind) is not None}
    for kind in sorted(others):
        notes.add(f"second factor by {kind}: there is none here; it stays behind")
    return totp_of(secrets[0], notes) if secrets else None


def _identities(user: SourceRecord, name: str, email: str, notes: Notes) -> tuple[ImportedIdentity, ...]:
    found: list[ImportedIdentity] = []
    for one in user.records("identities"):
        provider, connection = one.text("provider"), one.text("connection")
        subject = one.content.get("user_id")
        subject = str(subject) if isinstance(subject, int) and not isinstance(subject, bool) else subject
        if provider in {_DATABASE, ""}:
            continue
        issuer = _ISSUERS.get(provider)
        if issuer is None or not isinstance(subject, str) or not subject:
            notes.add(f"identity at {connection or provider}: its issuer is not known; it stays behind")
            continue
        told = one.record("profileData").text("email") or (email if name == f"{provider}|{subject}" else "")
        found.append(ImportedIdentity(issuer, subject, told))
    return tuple(found)


# The clients that Auth0 has for itself.
_BUILT_IN: Final = frozenset({"All Applications", "Default App", "API Explorer Application", "auth0-deploy-cli-extension"})
_PUBLIC: Final = frozenset({"spa", "native"})
_LONGEST_SHOWN: Final = 60
# The kinds of connections that become providers of the organization, and what says where the other side is.
_DIRECTORIES: Final[Mapping[str, str]] = {
    "samlp": "a SAML directory",
    "adfs": "AD FS",
    "pingfederate": "a SAML directory",
    "oidc": "a provider of OpenID Connect",
    "okta": "Okta",
    "waad": "Microsoft Entra ID",
    "google-apps": "Google Workspace",
}
_WHERE: Final = ("metadataUrl", "discovery_url", "issuer", "signInEndpoint", "domain", "tenant_domain", "adfs_server")
_SOCIAL: Final = frozenset({"google-oauth2", "github", "windowslive"})


def foreign_parts(tenant: Mapping[str, Json]) -> ForeignParts:
    """Reads clients, roles and connections of an Auth0 tenant as the Deploy CLI exports them, as a configuration file can hold them.
    `tenant` is the content of its tenant.yaml, or the same put together of a folder.
    """
    record = SourceRecord(tenant, Notes())
    clients = [one for one in _records(record, "clients") if one.text("name") not in _BUILT_IN and not one.flag("global")]
    return ForeignParts(
        system="Auth0",
        clients=[_client(one) for one in clients if one.text("name")],
        roles=[_role(one) for one in _records(record, "roles") if one.text("name")],
        remarks=[*_connections(record), *_rest(record)],
    )


def _records(tenant: SourceRecord, key: str) -> Sequence[SourceRecord]:
    """All of them, however many."""
    found = tenant.content.get(key)
    return [SourceRecord(one, tenant.notes) for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _client(client: SourceRecord) -> ForeignClient:
    name, kind = client.text("name"), client.text("app_type")
    is_public = kind in _PUBLIC or client.text("token_endpoint_auth_method") == "none"
    redirects = addresses(client.texts("callbacks"), is_public=is_public)
    service_type = "api" if kind == "non_interactive" and not redirects.kept else type_of(redirects)
    if kind == "native" and service_type == "web":
        service_type = "desktop"
    own_schemes = service_type in {"mobile", "desktop"}
    logout = [uri for one in ("oidc_logout", "oidc_backchannel_logout") for uri in client.record(one).texts("backchannel_logout_urls")]
    called = [one for one in logout if addresses([one], own_schemes=False).kept]
    return ForeignClient(
        name=name,
        client_id=client.text("client_id"),
        title=name,
        service_type=service_type,
        redirects=redirects,
        after_logout=addresses(client.texts("allowed_logout_urls"), is_public=is_public, own_schemes=own_schemes),
        backchannel_logout_uri=called[0] if called else "",
        remarks=list(_remarks(client)),
    )


def _remarks(client: SourceRecord) -> Iterator[str]:
    grants = set(client.texts("grant_types"))
    if grants & {"implicit", "password", "http://auth0.com/oauth/grant-type/password-realm"}:
        yield "It may have used the implicit flow, or the passwords of people. Neither is here: use the authorization code."
    if client.record("jwt_configuration").text("alg") == "HS256":
        yield "Its ID tokens were signed with its secret (HS256). Here they are signed with a key: see `id_token_alg`."
    if client.record("addons").content.get("samlp") is not None:
        yield "It speaks SAML: give it the service provider's metadata."
    if client.content.get("organization_usage") == "require":
        yield "Only people of an organization of Auth0 signed in to it: see `sign_in_policy`."


def _role(role: SourceRecord) -> ForeignRole:
    granted: dict[str, list[str]] = {}
    for one in role.records("permissions"):
        granted.setdefault(shown(one.text("resource_server_identifier"), _LONGEST_SHOWN), []).append(
            shown(one.text("permission_name"), _LONGEST_SHOWN)
        )
    remarks = [f"It has {', '.join(names)} of {api}: make permissions and a role of that service" for api, names in granted.items()]
    return ForeignRole(role.text("name"), role.text("description"), remarks)


def _connections(tenant: SourceRecord) -> Iterator[str]:
    for one in _records(tenant, "connections"):
        kind, name = one.text("strategy"), shown(one.text("name"), _LONGEST_SHOWN)
        if kind in _DIRECTORIES:
            settings = one.record("options")
            where = next((shown(text, 200) for key in _WHERE if (text := settings.text(key))), "")
            domains = [shown(text, _LONGEST_SHOWN) for text in settings.texts("domain_aliases")]
            at = f" at {where}" if where else ""
            served = f", for the domains {', '.join(domains)}" if domains else ""
            yield f"Connection {name}: connect {_DIRECTORIES[kind]}{at} as a provider of the organization{served}."
        elif kind in _SOCIAL:
            yield f"Connection {name}: people sign in with {kind} if the installation or the organization has a client there."
        elif kind != _DATABASE:
            yield f"Connection {name} ({shown(kind, _LONGEST_SHOWN)}): has no counterpart."
    for one in _records(tenant, "databases"):
        yield f"Database {shown(one.text('name'), _LONGEST_SHOWN)}: its people come by `postern import auth0`."


def _rest(tenant: SourceRecord) -> Iterator[str]:
    for one in _records(tenant, "resourceServers"):
        scopes = [shown(scope.text("value"), _LONGEST_SHOWN) for scope in one.records("scopes")]
        name = shown(one.text("identifier") or one.text("name"), 200)
        has = f", with the permissions {', '.join(scopes)}" if scopes else ""
        yield f"API {name}: make a service for it{has}."
    for key, words in (("actions", "Actions"), ("rules", "Rules"), ("hooks", "Hooks")):
        if names := [shown(one.text("name"), _LONGEST_SHOWN) for one in _records(tenant, key)]:
            yield f"{words} {', '.join(names)}: are code, which nothing here runs."
