"""What is fit to arrive with an organization from another installation. The endpoints check what people send; nobody has checked a file.

The rules are the endpoints' own. Only what could reach beyond the organization is checked: what our pages and tokens say, where browsers
and our own calls go, what keys may do, and what other code takes for one of a closed list.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Final
from uuid import UUID

from core.domain.branding import brand_color
from core.domain.claims import ClaimPlace, ClaimSource, ServiceClaim
from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.connections import usable_settings
from core.domain.images import image_of
from core.domain.outbound.destinations import NotADestination, destination
from core.domain.services.api_keys import Permission
from core.domain.services.redirect_uris import redirect_uri, web_page
from core.domain.services.resource_identifiers import resource_identifier
from core.domain.services.resource_servers import ResourceScope, checked_scopes
from core.domain.services.service_claims import checked_claim
from core.domain.services.services import ServiceType, service_slug
from core.domain.services.user_keys import UserKeySettings, checked
from core.domain.tenancy.branding import LARGEST_LOGO, MOST_PIXELS
from core.domain.tenancy.domains import domain_name
from core.domain.tenancy.keys.trusted_issuers import TEXTS, TrustedIssuerSettings
from core.domain.tenancy.keys.trusted_issuers import made as trusted_issuer
from core.domain.tenancy.organizations import organization_name
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.webhooks import subscription
from core.frozen import names_of

_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,98}[a-z0-9])?")
Values = Mapping[str, Any]


def require_fit(table: str, row: Values) -> None:
    """Raises `BadRequest`, which names the column."""
    check = _CHECKS.get(table)
    if check is None:
        return
    try:
        check(row)
    except NotADestination as refusal:
        raise BadRequest(f"an address {refusal}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadRequest("a value is of the wrong type, or not one of those that there are") from None


def is_checked(table: str) -> bool:
    return table in _CHECKS


def _organization(row: Values) -> None:
    organization_name(row["name"])
    if row["primary_color"] is not None and brand_color(row["primary_color"]) is None:
        raise BadRequest("primary_color: must be a colour like #0f5f5c")
    _require_addresses(row[name] for name in ("logo_url", "help_url", "privacy_url", "terms_url"))


def _service(row: Values) -> None:
    service_slug(row["slug"])
    private_use = not ServiceType(row["service_type"]).is_confidential
    for name in ("redirect_uris", "post_logout_redirect_uris"):
        for uri in row[name]:
            redirect_uri(uri, name, private_use=private_use)
    if row["device_activation_uri"] is not None:
        web_page(row["device_activation_uri"], "device_activation_uri")
    _require_addresses(row[name] for name in ("backchannel_logout_uri", "jwks_uri"))


def _claim(row: Values) -> None:
    places = tuple(ClaimPlace(place) for place in row["told_in"])
    checked_claim(ServiceClaim(row["name"], ClaimSource(row["source"]), row["argument"], places))


def _resource_server(row: Values) -> None:
    if resource_identifier(row["identifier"]).host != row["domain"]:
        raise BadRequest("domain: is not the identifier's host")
    # The service that stands for the API may be gone. Nobody holds its permissions then.
    for scope in row["scopes"]:
        if type(scope.get("acr_values", [])) is not list or type(scope.get("max_age", 0)) not in {int, NoneType}:
            raise BadRequest("scopes: acr_values are a list, and max_age is a whole number or null")
    checked_scopes([ResourceScope(**scope) for scope in row["scopes"]], has_service=True)


def _saml(row: Values) -> None:
    for name in ("acs_url", "slo_url", "slo_response_url"):
        if row[name] is not None:
            web_page(row[name], name)
    for endpoint in row["acs_endpoints"]:
        web_page(endpoint["url"], "acs_endpoints")


def _picture(row: Values) -> None:
    content = bytes.fromhex(row["content"].removeprefix("\\x"))
    image = image_of(content)
    kind = row.get("media_type", row.get("type"))
    if image is None or image.media_type != kind or not image.fits(MOST_PIXELS) or len(content) > LARGEST_LOGO:
        raise BadRequest("content: is no picture of the type that it says")


def _webhook(row: Values) -> None:
    _require_addresses([row["url"]])
    subscription(row["events"])


def _slug(row: Values) -> None:
    if not _SLUG.fullmatch(row["slug"]):
        raise BadRequest("slug: must be of a-z, 0-9, - and _")


def _domain(row: Values) -> None:
    if domain_name(row["domain"]) != row["domain"]:
        raise BadRequest("domain: must be in lower case")


def _upstream_provider(row: Values) -> None:
    # The issuer of a provider that does not speak OpenID Connect is a name.
    if row.get("kind", "oidc") == "oidc":
        _require_addresses([row["issuer"]])
        return
    usable_settings(row["saml"])


def _management_key(row: Values) -> None:
    for word in row["capabilities"]:
        Capability(word)


def _api_key(row: Values) -> None:
    for word in row["permissions"]:
        Permission(word)


def _user_key_settings(row: Values) -> None:
    # Which API the keys are for follows from another table.
    checked(UserKeySettings(**{name: row[name] for name in names_of(UserKeySettings) if not name.startswith("resource")}))


def _invitation(row: Values) -> None:
    if Email(row["email"]).key != row["email_key"]:
        raise BadRequest("email_key: is of another address")


def _require_addresses(addresses: Iterable[str | None]) -> None:
    for address in addresses:
        if address is not None:
            destination(address)


def _trusted_issuer(row: Values) -> None:
    if not all(type(row[name]) is str for name in TEXTS):
        raise BadRequest("name, issuer, audience, subject_pattern: each is a text")
    settings = TrustedIssuerSettings(**{name: row[name] for name in names_of(TrustedIssuerSettings)})
    trusted_issuer(UUID(int=0), OrganizationId(UUID(int=0)), settings, own_issuer="", now=datetime.min.replace(tzinfo=UTC))


_CHECKS: Final[Mapping[str, Callable[[Values], None]]] = {
    "all_organizations": _organization,
    "all_services": _service,
    "resource_servers": _resource_server,
    "service_claims": _claim,
    "service_roles": _slug,
    "roles": _slug,
    "teams": _slug,
    "saml_configurations": _saml,
    "logos": _picture,
    "pictures": _picture,
    "webhooks": _webhook,
    "siem_configurations": lambda row: _require_addresses([row["endpoint_url"]]),
    "upstream_providers": _upstream_provider,
    "domains": _domain,
    "domain_routes": _domain,
    "invitations": _invitation,
    "management_keys": _management_key,
    "api_keys": _api_key,
    "user_key_settings": _user_key_settings,
    "trusted_issuers": _trusted_issuer,
}
