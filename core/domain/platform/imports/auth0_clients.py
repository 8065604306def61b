"""Clients, roles and connections of an Auth0 tenant as a0deploy writes them down, as a configuration document can hold them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from core.domain.json import Json
from core.domain.platform.imports.addresses import addresses
from core.domain.platform.imports.clients import ForeignClient, ForeignParts, ForeignRole, type_of
from core.domain.platform.imports.records import Notes, SourceRecord, shown

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
_DATABASE: Final = "auth0"


def foreign_parts(tenant: Mapping[str, Json]) -> ForeignParts:
    """`tenant` is the content of a0deploy's tenant.yaml, or the same put together of a folder."""
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
