"""What each column of a row may be that arrives with an organization from another installation. The rules are the endpoints' own functions.

Every column of texts, numbers, lists and documents of every table that moves stands here, also one that something else looks at:
`tests/adapters/postgres/moving/test_declaration.py` compares this with PostgreSQL's catalogue. Ids, times, digests and what is sealed are
of their types and nothing else.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from ipaddress import ip_interface
from types import UnionType
from typing import Any, Final, get_args, get_type_hints

from core.domain.errors import BadRequest
from core.domain.federation.saml.configurations import Certificate, Configuration
from core.domain.federation.scim.groups import DirectorySettings, group_name
from core.domain.federation.scim.mappings import scim_mapping
from core.domain.federation.scim.protocol import text_of
from core.domain.identity.devices import LONGEST_USER_AGENT
from core.domain.identity.passkeys import LONGEST_CREDENTIAL_ID, LONGEST_PUBLIC_KEY, TRANSPORTS, passkey_name
from core.domain.identity.terms import terms_address, terms_version
from core.domain.identity.upstream.claims import LONGEST_SUBJECT, Voucher, stated_address
from core.domain.identity.upstream.providers import provider_key
from core.domain.identity.upstream.refreshes import RefreshFault
from core.domain.outbound import metadata_hosts
from core.domain.requests import Checks
from core.domain.saml import LONGEST_CERTIFICATE, entity_id, fingerprint
from core.domain.services import proxies
from core.domain.services.api_keys import Permission
from core.domain.services.plans import CHECKS as PLAN_CHECKS
from core.domain.services.plans import Subscription, plan_key
from core.domain.services.resource_servers import ResourceServer
from core.domain.services.service_roles import CHECKS as ROLE_CHECKS
from core.domain.services.service_roles import permission_key, role_permissions, service_role_slug
from core.domain.services.services import LONGEST_SCOPE, MOST_SCOPES, ServiceSettings, service_name, service_slug
from core.domain.tenancy.branding import logo_destination
from core.domain.tenancy.domains import DomainRoute, domain_name, route_domain
from core.domain.tenancy.hooks import Hook, hook_destination, hook_seconds
from core.domain.tenancy.invitations import Invitation
from core.domain.tenancy.mail_servers import mail_host, mail_port, mail_username, sender_name
from core.domain.tenancy.management_keys import key_name
from core.domain.tenancy.members import Membership
from core.domain.tenancy.offboarding import CHECKS as OFFBOARDING_CHECKS
from core.domain.tenancy.organizations import CHECKS as ORGANIZATION_CHECKS
from core.domain.tenancy.organizations import Organization, checked_metadata
from core.domain.tenancy.profile_values import require_keepable
from core.domain.tenancy.roles import BuiltInRole, Capability, role_description, role_name, role_slug
from core.domain.tenancy.siem import SiemProvider, siem_batch_size, siem_destination, siem_name
from core.domain.tenancy.sign_in_rules import SignInRules
from core.domain.tenancy.teams import Team, team_slug
from core.domain.tenancy.trusted_issuers import TrustedIssuerSettings
from core.domain.tenancy.upstream_providers import CHECKS as PROVIDER_CHECKS
from core.domain.tenancy.upstream_providers import MOST_SUCCEEDED, OAuthCredentials, UpstreamProvider, client_id
from core.domain.tenancy.webhooks import subscription, webhook_destination, webhook_name
from core.frozen import Frozen, names_of

Rule = Callable[[Any], object]
"""Raises `BadRequest`, or whatever a value of another form makes of it."""


class OtherCheck(Enum):
    """Who else looks at a column."""

    ROW = "the rule of the whole row, in `arriving_rows.py`"
    STATEMENT = "a condition of the table's declaration, in `adapters/postgres/tables`"
    LEFT = "nobody: the declaration has another value in its place"


def _kept(rule: Rule) -> Rule:
    """Endpoints tidy what people type. A row has what came of it."""

    def check(value: Any) -> None:
        if rule(value) != (tuple(value) if isinstance(value, list) else value):
            raise BadRequest("must be without spaces around it and without control characters, as it is kept")

    return check


def _stored(checks: Checks, *left_out: str) -> dict[str, Rule]:
    """The rules of the fields that an endpoint stores by these checks."""
    return {name: _kept(check) for name, check in checks.items() if name not in left_out}


def _words(thing: type[Frozen]) -> dict[str, Rule]:
    """The rules of the fields whose type is an enum. Their columns have the same names."""
    return {
        name: one
        for name, kind in get_type_hints(thing).items()
        for one in (get_args(kind) if isinstance(kind, UnionType) else (kind,))
        if isinstance(one, type) and issubclass(one, Enum)
    }


def _text(longest: int) -> Rule:
    """A text that a program made, or that came from another system."""

    def check(value: str) -> None:
        if len(value) > longest or not value.isprintable():
            raise BadRequest(f"at most {longest} printable characters")

    return check


def _each(rule: Rule, most: int) -> Rule:
    def check(values: list[Any]) -> None:
        if len(values) > most:
            raise BadRequest(f"at most {most}")
        for one in values:
            rule(one)

    return check


def _bytes(longest: int) -> Rule:
    """As PostgreSQL writes bytes: two letters, and then hexadecimal digits."""

    def check(value: str) -> None:
        if len(value) > 2 + 2 * longest:
            raise BadRequest(f"at most {longest} bytes")

    return check


def _one_of(*words: str) -> Rule:
    def check(value: str) -> None:
        if value not in words:
            raise BadRequest(f"one of {', '.join(words)}")

    return check


def _digest(value: str) -> None:
    if _SHA256.fullmatch(value) is None:
        raise BadRequest("must be a digest")


def _natural(value: int) -> None:
    if value < 0:
        raise BadRequest("must not be below zero")


def _document(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise BadRequest("must be an object")


def _names(rule: Rule) -> Rule:
    """An object whose values are texts."""

    def check(value: Any) -> None:
        _document(value)
        if not all(isinstance(one, str) for one in value.values()):
            raise BadRequest("must be an object of texts")
        rule(value)

    return check


def _values(value: Any) -> None:
    _document(value)
    require_keepable(value)


def _metadata(value: Any) -> None:
    _document(value)
    checked_metadata(value)


def certificate(pem: str) -> None:
    if not pem.startswith("-----BEGIN CERTIFICATE-----\n") or len(pem) > LONGEST_CERTIFICATE:
        raise BadRequest(f"must be a certificate in PEM, of at most {LONGEST_CERTIFICATE} characters")
    # It raises `ValueError` for a text that is not base64. The refusal then names the column.
    fingerprint(pem)


def _of_directory(value: str) -> None:
    if text_of("text", value) != value:
        raise BadRequest("must not be empty")


def _work_address(value: str) -> None:
    _of_directory(value)
    if "@" not in value:
        raise BadRequest("must be an address")


def _user_agent(value: str) -> None:
    """A client may send anything in this header, and the log keeps its beginning."""
    if len(value) > LONGEST_USER_AGENT:
        raise BadRequest(f"at most {LONGEST_USER_AGENT} characters")


def _transport(value: str) -> None:
    if value not in TRANSPORTS:
        raise BadRequest(f"each one of {', '.join(TRANSPORTS)}")


def _text_key(value: str) -> None:
    if not _TEXT_KEY.fullmatch(value):
        raise BadRequest("must be the key of a text")


def _language_code(value: str) -> None:
    """Of any language: a newer release speaks more."""
    if not _LANGUAGE_CODE.fullmatch(value):
        raise BadRequest("must be the code of a language")


_TEXT_KEY: Final = re.compile(r"[a-z0-9_.]{1,80}")
_LANGUAGE_CODE: Final = re.compile(r"[a-z]{2,8}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST_PREFIX: Final = 80
_LONGEST_WORD: Final = 100
_LONGEST_ID: Final = 200
_MOST_WORDS: Final = 100
_NAME: Final = _kept(key_name)
_PREFIX: Final = _text(_LONGEST_PREFIX)
_SCOPES: Final = _each(_text(LONGEST_SCOPE), MOST_SCOPES)
ROW: Final = OtherCheck.ROW
STATEMENT: Final = OtherCheck.STATEMENT
LEFT: Final = OtherCheck.LEFT

_OF_TENANCY: Final[Mapping[str, Mapping[str, Rule | OtherCheck]]] = {
    "all_organizations": {
        **_stored(ORGANIZATION_CHECKS),
        **_words(Organization),
        **_words(SignInRules),
        "slug": LEFT,
        "logo_url": logo_destination,
        "primary_color": ROW,
        **dict.fromkeys(("device_trust_days", "mfa_grace_days", "session_hours", "invitation_domains", "shortest_password"), ROW),
        **dict.fromkeys(("session_idle_minutes", "most_sessions", "registration_domains"), ROW),
        **dict.fromkeys(("help_url", "privacy_url", "terms_url"), ROW),
        **dict.fromkeys(("look", "languages"), ROW),
        "logo_digest": _digest,
        "metadata": _metadata,
        "metadata_hosts": metadata_hosts,
    },
    "memberships": {**_words(Membership), "role": STATEMENT},
    "organization_texts": {"key": _text_key, "language": _language_code, "text": ROW, "based_on": ROW},
    "invitations": {**_words(Invitation), "email": ROW, "email_key": ROW, "role": STATEMENT},
    "former_members": {},
    "team_members": {},
    "teams": {
        **_words(Team),
        "slug": team_slug,
        # A directory's groups may have longer names than those that people make.
        "name": _kept(group_name),
        "external_id": _of_directory,
        "role": STATEMENT,
    },
    "roles": {"slug": role_slug, "name": _kept(role_name), "description": _kept(role_description)},
    "relations": {"relation": STATEMENT, "object_type": _one_of("organization", "role", "service_role"), "built_in_role": BuiltInRole},
    # Teams, roles of services and permissions: the last have the widest form.
    "former_slugs": {"noun": _one_of("team", "service_role", "permission"), "slug": permission_key},
    "profile_values": {"values": _values},
    "all_profile_fields": dict.fromkeys(("key", "label", "kind", "rule", "written_by", "scope", "asked_at", "position"), ROW),
    "management_keys": {"name": _NAME, "prefix": _PREFIX, "capabilities": _each(Capability, _MOST_WORDS)},
    "trusted_issuers": dict.fromkeys(names_of(TrustedIssuerSettings), ROW),
    "mail_servers": {
        "host": _kept(mail_host),
        "port": mail_port,
        "username": mail_username,
        "from_email": ROW,
        "from_name": _kept(sender_name),
    },
    "offboarding_deadlines": OFFBOARDING_CHECKS,
    "logos": {"digest": ROW, "media_type": ROW},
    "look_pictures": {"kind": _one_of("dark_logo", "favicon", "background"), "digest": ROW, "media_type": ROW},
    "domains": {"domain": _kept(domain_name)},
    "domain_routes": {**_words(DomainRoute), "domain": _kept(route_domain)},
    "oauth_credentials": {**_words(OAuthCredentials), "client_id": _kept(client_id)},
    "upstream_providers": {
        **_stored(PROVIDER_CHECKS),
        **_words(UpstreamProvider),
        **dict.fromkeys(("issuer", "saml", "ldap"), ROW),
        **dict.fromkeys(("certificate", "next_certificate", "former_certificate"), certificate),
        "refresh_fault": RefreshFault,
        "succeeds": _each(Voucher.of, MOST_SUCCEEDED),
    },
    "webhooks": {"name": _kept(webhook_name), "url": webhook_destination, "events": subscription},
    "hooks": {**_words(Hook), "address": hook_destination, "seconds": hook_seconds},
    "siem_configurations": {
        "name": _kept(siem_name),
        "provider_type": SiemProvider,
        "endpoint_url": siem_destination,
        "batch_size": siem_batch_size,
    },
}
_OF_SERVICES: Final[Mapping[str, Mapping[str, Rule | OtherCheck]]] = {
    "all_services": {
        # The rule of the whole row takes the settings as the class has them.
        **{name: ROW for name, kind in get_type_hints(ServiceSettings).items() if kind is not bool},
        **_words(ServiceSettings),
        "slug": service_slug,
        "logo_digest": _digest,
        "kept_client_id": ROW,
        "metadata": _metadata,
    },
    "subscriptions": _words(Subscription),
    "plans": {**_stored(PLAN_CHECKS, "billing_price_id"), "key": plan_key},
    "api_keys": {"name": _NAME, "prefix": _PREFIX, "permissions": _each(Permission, _MOST_WORDS)},
    "user_keys": {"name": _NAME, "prefix": _PREFIX, "scopes": _SCOPES},
    "service_logos": {"digest": ROW, "media_type": ROW},
    "user_key_settings": dict.fromkeys(("prefix", "most_keys", "longest_days"), ROW),
    "proxies": {
        "rules": lambda lines: list(proxies.checked(proxies.ProxySettings(rules=lines)).rules),
        "headers": lambda lines: list(proxies.checked(proxies.ProxySettings(headers=lines)).headers),
        "idle_minutes": lambda minutes: proxies.checked(proxies.ProxySettings(idle_minutes=minutes)).idle_minutes,
    },
    "provisioning_connections": {
        **dict.fromkeys(("preset", "base_url", "mapping", "attributes_left_out"), ROW),
        **dict.fromkeys(("state", "stopped_why"), LEFT),
    },
    "client_secrets": {"prefix": _PREFIX},
    "service_claims": dict.fromkeys(("name", "source", "argument", "told_in"), ROW),
    "permissions": {"key": permission_key, "description": _kept(role_description)},
    "service_roles": {
        **_stored(ROLE_CHECKS, "given_to_everybody"),
        "slug": service_role_slug,
        "permissions": lambda keys: [*map(permission_key, role_permissions(keys))],
    },
    "resource_servers": {
        **_words(ResourceServer),
        **dict.fromkeys(("identifier", "domain", "name", "token_lifetime", "scopes", "metadata_hosts"), ROW),
    },
    "resource_admissions": {},
    "resource_exchanges": {},
    "service_users": {"metadata": _metadata},
    "former_services": {"name": _kept(service_name)},
    "terms": {"version": _kept(terms_version), "address": _kept(terms_address)},
    "terms_acceptances": {},
    "consents": {"scopes": _SCOPES, "saml_entity_id": entity_id, "saml_scopes": _SCOPES},
    "logout_receivers": {},
    "saml_configurations": {
        **_words(Configuration),
        **dict.fromkeys(("entity_id", "acs_url", "slo_url", "slo_response_url", "name_id_format"), ROW),
        "attribute_mapping": _document,
        **dict.fromkeys(("acs_endpoints", "signing_certificates", "encryption_certificate"), ROW),
    },
    "saml_certificates": {**_words(Certificate), "certificate": certificate, "warned_days": _natural},
}
_OF_PEOPLE: Final[Mapping[str, Mapping[str, Rule | OtherCheck]]] = {
    "pictures": {"type": ROW},
    "mfa_secrets": {"last_step": _natural},
    "passkeys": {
        "credential_id": _bytes(LONGEST_CREDENTIAL_ID),
        "public_key": _bytes(LONGEST_PUBLIC_KEY),
        "sign_count": _natural,
        "name": _kept(passkey_name),
        "made_on": _kept(passkey_name),
        "transports": _each(_transport, len(TRANSPORTS)),
    },
    "identities": {
        "provider": provider_key,
        "issuer": entity_id,
        "subject": _text(LONGEST_SUBJECT),
        "email": _kept(stated_address),
    },
    "scim_tokens": {"name": _NAME, "prefix": _PREFIX},
    "scim_groups": {**_words(DirectorySettings), "external_id": _of_directory, "profile_mapping": _names(scim_mapping)},
    "provisioned_users": {
        "work_email": _work_address,
        **dict.fromkeys(("external_id", "formatted_name", "given_name", "family_name", "display_name"), _of_directory),
    },
}
_OF_RECORD: Final[Mapping[str, Mapping[str, Rule | OtherCheck]]] = {
    "login_counts": {"provider": _text(_LONGEST_WORD), "logins": _natural},
    # What happened is what happened, also by words of a release that is over. The chain's digest covers it.
    "audit_entries": {
        "action": _text(_LONGEST_WORD),
        "target_type": _text(_LONGEST_WORD),
        "target_id": _text(_LONGEST_ID),
        "details": _document,
    },
    "audit_personal": {"address": ip_interface, "user_agent": _user_agent, "details": _document},
}

COLUMNS: Final[Mapping[str, Mapping[str, Rule | OtherCheck]]] = {**_OF_TENANCY, **_OF_SERVICES, **_OF_PEOPLE, **_OF_RECORD}
