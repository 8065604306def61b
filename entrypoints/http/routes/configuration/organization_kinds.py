"""The kinds of configuration objects that belong to an organization or to its applications, in the order of their creation."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from core.domain.errors import BadRequest
from core.domain.federation.saml.configurations import Configuration
from core.domain.formats import Json
from core.domain.identity.registering import listed_domain
from core.domain.identity.upstream.connections import ProviderKind
from core.domain.identity.upstream.ldap.settings import LdapChange, authorities_in, host_in
from core.domain.identity.upstream.providers import Provider
from core.domain.languages import Language
from core.domain.lines import one_line
from core.domain.outbound import client_keys
from core.domain.platform.configuration.objects import ORGANIZATION, SERVICE, SERVICE_ROLES, ObjectPlace
from core.domain.platform.configuration.planning import SortRules
from core.domain.saml import SamlBinding
from core.domain.services.proxies import ProxySettings
from core.domain.services.user_keys import UserKeySettings
from core.domain.tenancy.profile_fields import read_rule
from core.domain.tenancy.sign_in_rules import SignInRules
from core.domain.texts.rules import OwnText, canonical
from core.frozen import names_of
from entrypoints.http.machinery.fields import example
from entrypoints.http.routes.configuration.kinds import Fields, ObjectKind, References, Within, before_any, entry
from entrypoints.http.routes.federation import provisioning, saml, scim_settings
from entrypoints.http.routes.platform import governance
from entrypoints.http.routes.services import plans, proxies, resource_servers, service_claims, service_roles, services, user_keys
from entrypoints.http.routes.tenancy import (
    branding,
    domain_routes,
    domains,
    mail_servers,
    oauth_credentials,
    offboarding,
    organizations,
    profile_fields,
    roles,
    siem,
    sign_in_rules,
    teams,
    texts,
    trusted_issuers,
    upstream_providers,
    webhooks,
)

_BINDINGS: Final = {
    SamlBinding.POST: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST",
    SamlBinding.REDIRECT: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect",
}
_ARMOUR: Final = re.compile(r"-----(?:BEGIN|END) CERTIFICATE-----|\s+")
_LINE: Final = 64
_Pem = Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]


class AcsAddress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An assertion consumer service of the service provider."""

    index: int
    """The number by which requests can refer to this URL."""
    url: str
    """The assertion consumer service URL."""
    is_default: bool = False
    """Whether assertions are sent to this URL if a request names no URL."""


class SamlServiceProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The URLs and certificates of a service provider."""

    entity_id: Annotated[str, example("https://crm.example.com/saml")]
    """The service provider's entity ID, as in `saml`."""
    acs_endpoints: Sequence[AcsAddress]
    """The assertion consumer services that requests can name, by HTTP-POST."""
    slo_url: Annotated[str, example("https://crm.example.com/saml/slo")] | None = None
    """The service provider's single logout URL."""
    slo_response_url: str | None = None
    """The service provider's single logout response URL, if it differs."""
    slo_binding: SamlBinding = SamlBinding.POST
    """The binding for single logout messages: `post` or `redirect`."""
    signing_certificates: Sequence[_Pem] = ()
    """The certificates, in PEM, that verify the service provider's requests."""
    encryption_certificate: _Pem | None = None
    """The certificate, in PEM, that assertions are encrypted for; null for no encryption."""


def metadata(fields: Fields) -> bytes:
    """The fields as metadata (SAML metadata, section 2.4.4)."""
    parts = [_key("signing", one) for one in fields.get("signing_certificates") or ()]
    if fields.get("encryption_certificate") is not None:
        parts.append(_key("encryption", fields["encryption_certificate"]))
    if fields.get("slo_url") is not None:
        binding = _BINDINGS[SamlBinding(fields.get("slo_binding") or SamlBinding.POST)]
        answers = "" if fields.get("slo_response_url") is None else f' ResponseLocation="{escape(fields["slo_response_url"])}"'
        parts.append(f'<md:SingleLogoutService Binding="{binding}" Location="{escape(fields["slo_url"])}"{answers}/>')
    for one in fields["acs_endpoints"]:
        named = f'Location="{escape(one["url"])}" index="{one["index"]}"'
        default = ' isDefault="true"' if one.get("is_default") else ""
        parts.append(f'<md:AssertionConsumerService Binding="{_BINDINGS[SamlBinding.POST]}" {named}{default}/>')
    return (
        f'<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#"'
        f' entityID="{escape(fields["entity_id"])}">'
        f'<md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">{"".join(parts)}</md:SPSSODescriptor>'
        "</md:EntityDescriptor>"
    ).encode()


def _key(use: str, pem: str) -> str:
    text = escape(_ARMOUR.sub("", pem))
    data = f"<ds:X509Data><ds:X509Certificate>{text}</ds:X509Certificate></ds:X509Data>"
    return f'<md:KeyDescriptor use="{use}"><ds:KeyInfo>{data}</ds:KeyInfo></md:KeyDescriptor>'


def stored_pem(pem: Any) -> str:
    """The certificate as it is stored, whatever its lines were."""
    text = _ARMOUR.sub("", pem)
    lines = "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


def stored_endpoints(endpoints: Any) -> list[dict[str, Any]]:
    return [{"index": one["index"], "url": one["url"], "is_default": one.get("is_default") is True} for one in endpoints]


def stored_hosts(hosts: Any) -> Any:
    return list(dict.fromkeys(_host(one) for one in hosts)) if isinstance(hosts, list | tuple) else hosts


def stored_authorities(text: Any) -> Any:
    try:
        return "".join(stored_pem(one) for one in authorities_in(text)) if text else text
    except BadRequest:
        return text


def _host(text: Any) -> Any:
    try:
        return host_in(text, start_tls=text.strip().lower().startswith("ldap://"))
    except BadRequest:
        return text


OWN_PROVIDER: Final = "upstream_providers/"
"""Begins the name of one of the organization's own providers, in a domain route."""

_OF_OIDC: Final = frozenset({"client_id", "client_secret", "scopes"})
_OF_SAML: Final = frozenset(
    (
        *("sso_url", "slo_url", "slo_response_url", "slo_binding", "metadata_url", "certificates"),
        *("preset", "subject_source", "email_sources", "wants_encrypted", "requested_contexts"),
    )
)
_OF_LDAP: Final = frozenset({*names_of(LdapChange), "bind_password"})
_RULES: Final = SignInRules()
_Tier = Annotated[str, example("professional")]
_TeamSlug = Annotated[str, example("support")]
_RouteProvider = Annotated[str, example("upstream_providers/Acme login")]


def lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def bounds(value: Any) -> Any:
    """A document's bounds are read before. A stored rule that cannot be read has none: it must not end the export of all others."""
    return msgspec.to_builtins(profile_fields.bounds_record(read_rule(value)))


def stated_bounds(value: Any) -> Any:
    """The bounds that a field has, without those that it lacks."""
    return {name: bound for name, bound in value.items() if bound is not None and bound != []}


def _domain(value: Any) -> Any:
    return value.strip().rstrip(".").lower() if isinstance(value, str) else value


def _mail_domain(value: Any) -> Any:
    """As addresses compare: a name with other letters is kept as name servers know it. What is no domain is refused later."""
    return (listed_domain(value) or _domain(value)) if isinstance(value, str) else value


def _stored_texts(language: Language) -> Callable[[Any], Any]:
    return lambda texts: {key: canonical(OwnText(key, language, text)) for key, text in texts.items()}


# A document may leave languages out, and each language that it names is whole.
NO_TEXTS: Final[Mapping[str, Json]] = {language.value: {} for language in Language}
STORED_TEXTS: Final = {language.value: _stored_texts(language) for language in Language}


async def _with_tier(fields: Fields, _place: ObjectPlace, references: References) -> Fields:
    sent = {name: value for name, value in fields.items() if name != "tier"}
    return {**sent, "tier_id": await references.tier(fields["tier"])} if "tier" in fields else sent


async def _with_provider(fields: Fields, place: ObjectPlace, references: References) -> Fields:
    sent = {name: value for name, value in fields.items() if name != "upstream_provider"}
    if "upstream_provider" not in fields:
        return sent
    named = fields["upstream_provider"]
    if named is None or named in tuple(Provider):
        return {**sent, "upstream_provider_id": named}
    if not named.startswith(OWN_PROVIDER):
        words = ", ".join(Provider)
        raise BadRequest(f"upstream_provider: name {words}, or {OWN_PROVIDER} and the name of one of the organization's own")
    own = ObjectPlace(place.organization, "", "upstream_providers", named.removeprefix(OWN_PROVIDER))
    return {**sent, "upstream_provider_id": references.id_of(own)}


ORGANIZATION_KINDS: Final = (
    ObjectKind(
        name=ORGANIZATION,
        within=Within.ORGANIZATION,
        entry=entry("OrganizationEntry", organizations.OrganizationChange),
        shown_by=organizations.get_organization,
        change=organizations.change_organization,
        is_single=True,
        is_holder=True,
        is_founded=True,
        needed=frozenset({"name"}),
    ),
    ObjectKind(
        name="limits",
        within=Within.ORGANIZATION,
        entry=entry("LimitsEntry", governance.TierChange, without=("tier_id",), more={"tier": _Tier}),
        shown_by=governance.list_platform_organizations,
        change=governance.change_organization_tier,
        parameter="org_id",
        is_single=True,
        always=frozenset({"tier"}),
        standing={"tier": "free", "max_services": None, "max_users": None},
        translate=_with_tier,
    ),
    ObjectKind(
        name="sign_in_rules",
        within=Within.ORGANIZATION,
        entry=entry("SignInRulesEntry", sign_in_rules.SignInRulesPatch),
        shown_by=sign_in_rules.get_sign_in_rules,
        change=sign_in_rules.change_sign_in_rules,
        is_single=True,
        standing={
            "mfa_policy": _RULES.mfa_policy.value,
            "mfa_grace_days": _RULES.mfa_grace_days,
            "device_trust_days": _RULES.device_trust_days,
            "session_lifetime_hours": _RULES.session_hours,
            "session_idle_minutes": _RULES.session_idle_minutes,
            "most_sessions": _RULES.most_sessions,
            "invitation_domains": list(_RULES.invitation_domains),
            "sign_in_links": _RULES.sign_in_links,
            "admin_factor": _RULES.admin_factor.value,
            "all_factor": _RULES.all_factor.value,
            "all_factor_role": _RULES.all_factor_role,
            "passkey_offers": _RULES.passkey_offers,
            "metadata_clients": _RULES.metadata_clients.value,
            "metadata_hosts": list(_RULES.metadata_hosts),
            "registered_clients": _RULES.registered_clients.value,
            "agents": _RULES.agents.value,
            "afar_requests": _RULES.afar_requests.value,
            "shortest_password": _RULES.shortest_password,
            "breached_at_sign_in": _RULES.breached_at_sign_in,
            "registration_policy": _RULES.registration_policy.value,
            "registration_domains": list(_RULES.registration_domains),
        },
        # A role counts for one of the demands alone.
        together=(frozenset({"all_factor", "all_factor_role"}),),
        unordered=frozenset({"invitation_domains", "metadata_hosts", "registration_domains"}),
        stored=dict.fromkeys(("invitation_domains", "registration_domains"), lambda names: sorted({_mail_domain(one) for one in names})),
    ),
    ObjectKind(
        name="branding",
        within=Within.ORGANIZATION,
        entry=entry("BrandingEntry", branding.BrandingPatch),
        shown_by=branding.get_branding,
        change=branding.change_branding,
        is_single=True,
        standing=dict.fromkeys(("logo_url", "primary_color", "second_color", "corner", "font", "help_url", "privacy_url", "terms_url")),
        stored={"primary_color": lower, "second_color": lower},
    ),
    ObjectKind(
        name="languages",
        within=Within.ORGANIZATION,
        entry=entry("LanguagesEntry", branding.LanguagesPatch),
        shown_by=branding.get_languages,
        change=branding.change_languages,
        is_single=True,
        # The order counts: the first one is for readers of none of them.
        standing={"languages": []},
        stored={"languages": lambda codes: codes or []},
    ),
    ObjectKind(
        name="texts",
        within=Within.ORGANIZATION,
        entry=entry("TextsEntry", texts.WholeTextsBody),
        shown_by=texts.list_texts,
        change=texts.replace_texts,
        is_single=True,
        standing=NO_TEXTS,
        stored=STORED_TEXTS,
    ),
    ObjectKind(
        name="mail_server",
        within=Within.ORGANIZATION,
        entry=entry("MailServerEntry", mail_servers.SmtpBody),
        shown_by=mail_servers.get_mail_server,
        change=mail_servers.set_mail_server,
        end=mail_servers.remove_mail_server,
        is_single=True,
        secrets=("password",),
        sends_all=True,
        stored={"host": _domain, "from_name": lambda name: name or None},
    ),
    ObjectKind(
        name="domain",
        within=Within.ORGANIZATION,
        entry=entry("DomainEntry", domains.DomainBody),
        shown_by=domains.get_domain,
        change=domains.set_domain,
        end=domains.remove_domain,
        is_single=True,
        stored={"domain": _domain},
    ),
    ObjectKind(
        name="offboarding_deadline",
        within=Within.ORGANIZATION,
        entry=entry("OffboardingDeadlineEntry", offboarding.OffboardingDeadlineBody),
        shown_by=offboarding.get_offboarding_deadline,
        change=offboarding.set_offboarding_deadline,
        end=offboarding.remove_offboarding_deadline,
        is_single=True,
        sends_all=True,
    ),
    ObjectKind(
        name="siem",
        within=Within.ORGANIZATION,
        entry=entry("SiemEntry", siem.SiemBody),
        shown_by=siem.get_siem_configuration,
        change=siem.configure_siem,
        end=siem.remove_siem,
        is_single=True,
        secrets=("api_key", "auth_header"),
        sends_all=True,
    ),
    ObjectKind(
        name="profile_fields",
        within=Within.ORGANIZATION,
        entry=entry("ProfileFieldEntry", profile_fields.NewField, without=("key",)),
        shown_by=profile_fields.list_fields,
        make=profile_fields.create_field,
        change=profile_fields.change_field,
        end=profile_fields.delete_field,
        key="key",
        parameter="key",
        new_id="key",
        fixed=frozenset({"kind"}),
        unordered=frozenset({"written_by"}),
        stored={"rule": bounds},
        shown={"rule": stated_bounds},
    ),
    ObjectKind(
        name="scim_settings",
        within=Within.ORGANIZATION,
        entry=entry("ScimSettingsEntry", scim_settings.ChangedScimSettings),
        shown_by=scim_settings.get_scim_settings,
        change=scim_settings.change_scim_settings,
        is_single=True,
        standing={"groups": "organization", "profile_mapping": {}},
    ),
    ObjectKind(
        name="roles",
        within=Within.ORGANIZATION,
        entry=entry("RoleEntry", roles.NewRole, without=("slug",)),
        shown_by=roles.list_roles,
        make=roles.create_role,
        change=roles.change_role,
        end=roles.delete_role,
        key="slug",
        parameter="role_id",
        unordered=frozenset({"permissions"}),
    ),
    ObjectKind(
        name="teams",
        within=Within.ORGANIZATION,
        entry=entry("TeamEntry", teams.NewTeam, without=("slug",)),
        shown_by=teams.list_teams,
        make=teams.create_team,
        change=teams.change_team,
        end=teams.delete_team,
        key="slug",
        parameter="team_slug",
        new_id="slug",
    ),
    ObjectKind(
        name="webhooks",
        within=Within.ORGANIZATION,
        entry=entry("WebhookEntry", webhooks.NewWebhookBody, without=("name",)),
        shown_by=webhooks.list_webhooks,
        make=webhooks.create_webhook,
        change=webhooks.change_webhook,
        end=webhooks.delete_webhook,
        key="name",
        parameter="webhook_id",
        unordered=frozenset({"events"}),
    ),
    ObjectKind(
        name="upstream_providers",
        within=Within.ORGANIZATION,
        entry=entry("UpstreamProviderEntry", upstream_providers.NewUpstreamProvider, without=("name",)),
        shown_by=upstream_providers.list_upstream_providers,
        make=upstream_providers.create_upstream_provider,
        change=upstream_providers.change_upstream_provider,
        end=upstream_providers.delete_upstream_provider,
        key="name",
        parameter="provider_id",
        secrets=("client_secret", "bind_password"),
        fixed=frozenset({"kind"}),
        # A product sets the sources that do not come with it, and an address decides which certificates are given by hand.
        together=(
            frozenset({"preset", "subject_source", "email_sources"}),
            frozenset({"metadata_url", "certificates"}),
            frozenset({"slo_url", "slo_response_url"}),
            # A product sets what does not come with it, and the hosts, their scheme and the account decide about the password together.
            frozenset({"ldap_preset", "person_filter", "sign_in_attributes", "identity_attribute"}),
            frozenset({"hosts", "start_tls", "ca_certificates", "bind_dn"}),
            frozenset({"lockout_threshold", "accepts_lockouts"}),
        ),
        stored={
            "scopes": lambda scopes: list(dict.fromkeys(scopes)),
            "certificates": lambda ones: sorted({stored_pem(one) for one in ones}),
            "hosts": stored_hosts,
            "ca_certificates": stored_authorities,
        },
        sort_field="kind",
        sorts={
            ProviderKind.OIDC.value: SortRules(
                needed=frozenset({"issuer"}) | _OF_OIDC - {"scopes"}, fixed=frozenset({"issuer"}), lacks=_OF_SAML | _OF_LDAP
            ),
            # Whether people can sign in through a directory follows from its test and its owner's word.
            ProviderKind.SAML.value: SortRules(lacks=_OF_OIDC | _OF_LDAP | {"enabled"}),
            ProviderKind.LDAP.value: SortRules(lacks=_OF_OIDC | _OF_SAML | {"enabled", "issuer", "second_factor_values"}),
        },
    ),
    ObjectKind(
        name="oauth_credentials",
        within=Within.ORGANIZATION,
        entry=entry("OAuthCredentialsEntry", oauth_credentials.OAuthCredentialsBody),
        shown_by=oauth_credentials.get_oauth_credentials,
        make=oauth_credentials.set_oauth_credentials,
        change=oauth_credentials.set_oauth_credentials,
        end=oauth_credentials.remove_oauth_credentials,
        parameter="provider",
        new_id="provider",
        secrets=("client_secret",),
        sends_all=True,
    ),
    ObjectKind(
        name="domain_routes",
        within=Within.ORGANIZATION,
        entry=entry(
            "DomainRouteEntry",
            domain_routes.NewDomainRoute,
            without=("domain", "upstream_provider_id"),
            more={"upstream_provider": _RouteProvider | None},
        ),
        shown_by=domain_routes.list_domain_routes,
        make=domain_routes.create_domain_route,
        change=domain_routes.change_domain_route,
        end=domain_routes.delete_domain_route,
        key="domain",
        parameter="domain_id",
        translate=_with_provider,
    ),
)


FREE_PLAN: Final[dict[str, Any]] = {"name": "Free", "price_cents": 0, "currency": "usd", "features": [], "billing_price_id": None}
_TO_TEAM: Final = " to team "
_TO_ROLE: Final = " to role "


async def _assignment(fields: Fields, place: ObjectPlace, _references: References) -> Fields:
    """The name of an assignment says all: `editor to team support`, or `editor to role admin`."""
    for words, named in ((_TO_TEAM, "team"), (_TO_ROLE, "organization_role")):
        role, is_there, to = place.name.partition(words)
        if is_there:
            return {**fields, "role": role, named: to}
    raise BadRequest("an assignment is called `<role of the service> to team <team>` or `<role of the service> to role <role>`")


def _stated_mapping(value: Any) -> Any:
    """Without arguments that sources do not take."""
    return [{name: said for name, said in one.items() if said is not None} for one in value]


async def _with_teams(fields: Fields, place: ObjectPlace, references: References) -> Fields:
    sent = {name: value for name, value in fields.items() if name != "teams"}
    slugs = fields.get("teams")
    if slugs is None:
        return sent
    known = await references.ids("teams", place.organization, slugs)
    if missing := [slug for slug in slugs if slug not in known]:
        raise BadRequest(f"teams: there is no team «{missing[0]}»")
    return {**sent, "team_ids": [str(known[slug]) for slug in slugs]}


def _stored_keys(value: Any) -> Any:
    """What is no set of keys stays as it is: the endpoint refuses it."""
    try:
        return client_keys(value)
    except (BadRequest, AttributeError):
        return value


def _scopes(value: Any) -> Any:
    given = msgspec.convert(value, tuple[resource_servers.ResourceScopeBody, ...])
    return [msgspec.to_builtins(replace(one, description=one_line(one.description))) for one in given]


def _stated_scopes(value: Any) -> Any:
    """Without what scopes do not ask for."""
    return [{name: said for name, said in scope.items() if said not in (None, [])} for scope in value]


SERVICE_KINDS: Final = (
    ObjectKind(
        name=SERVICE,
        within=Within.ORGANIZATION,
        entry=entry("ServiceEntry", services.NewServiceBody, without=("slug",)),
        shown_by=services.list_services,
        make=services.create_service,
        change=services.change_service,
        end=services.delete_service,
        key="slug",
        parameter="service_slug",
        new_id="",
        is_holder=True,
        brings={("plans", "free"): FREE_PLAN},
        brought_id={("plans", "free"): "default_plan.id"},
    ),
    ObjectKind(
        name="plans",
        within=Within.SERVICE,
        entry=entry("PlanEntry", plans.NewPlan, without=("key",)),
        shown_by=plans.list_plans,
        make=plans.create_plan,
        change=plans.change_plan,
        end=plans.delete_plan,
        key="key",
        parameter="plan_id",
        stored={"currency": lower},
    ),
    ObjectKind(
        name="permissions",
        within=Within.SERVICE,
        entry=entry("PermissionEntry", service_roles.NewServicePermission, without=("key",)),
        shown_by=service_roles.list_service_permissions,
        make=service_roles.create_service_permission,
        change=service_roles.change_service_permission,
        end=service_roles.delete_service_permission,
        key="key",
        parameter="permission_key",
        new_id="key",
    ),
    ObjectKind(
        name="roles",
        stored_as=SERVICE_ROLES,
        within=Within.SERVICE,
        entry=entry("ServiceRoleEntry", service_roles.NewServiceRole, without=("slug",)),
        shown_by=service_roles.list_service_roles,
        make=service_roles.create_service_role,
        change=service_roles.change_service_role,
        end=service_roles.delete_service_role,
        key="slug",
        parameter="role_slug",
        new_id="slug",
        unordered=frozenset({"permissions"}),
    ),
    ObjectKind(
        name="assignments",
        within=Within.SERVICE,
        entry=entry("AssignmentEntry"),
        shown_by=service_roles.list_assignments,
        make=service_roles.create_assignment,
        end=service_roles.delete_assignment,
        parameter="assignment_id",
        translate=_assignment,
    ),
    ObjectKind(
        name="claims",
        within=Within.SERVICE,
        entry=entry("ClaimEntry", service_claims.NewServiceClaim, without=("name",)),
        shown_by=service_claims.list_service_claims,
        make=service_claims.create_service_claim,
        change=service_claims.change_service_claim,
        end=service_claims.delete_service_claim,
        key="name",
        parameter="claim_id",
        together=(frozenset({"source", "argument"}),),
        unordered=frozenset({"into"}),
    ),
    ObjectKind(
        name="saml_service_provider",
        within=Within.SERVICE,
        entry=entry("SamlServiceProviderEntry", SamlServiceProvider),
        shown_by=saml.get_saml_configuration,
        change=saml.upload_saml_metadata,
        is_single=True,
        sends_all=True,
        stored={
            "acs_endpoints": stored_endpoints,
            "signing_certificates": lambda ones: [stored_pem(one) for one in ones],
            "encryption_certificate": stored_pem,
        },
        needed=frozenset({"entity_id", "acs_endpoints"}),
        written=metadata,
    ),
    ObjectKind(
        name="saml",
        within=Within.SERVICE,
        entry=entry("SamlEntry", saml.SamlConfigurationBody),
        shown_by=saml.get_saml_configuration,
        change=saml.configure_saml,
        is_single=True,
        always=frozenset({"enabled"}),
        standing=before_any(saml.SamlConfigurationBody, Configuration),
    ),
    # An API names services, and permissions of one of them.
    ObjectKind(
        name="resource_servers",
        within=Within.ORGANIZATION,
        entry=entry("ResourceServerEntry", resource_servers.NewResourceServer, without=("identifier",)),
        shown_by=resource_servers.list_resource_servers,
        make=resource_servers.create_resource_server,
        change=resource_servers.change_resource_server,
        end=resource_servers.delete_resource_server,
        key="identifier",
        parameter="resource_id",
        unordered=frozenset({"admitted_services", "exchanges", "metadata_hosts"}),
        stored={"scopes": _scopes},
        shown={"scopes": _stated_scopes},
        together=(frozenset({"admits", "admitted_services"}), frozenset({"service_slug", "scopes"})),
    ),
    # After the roles and permissions that the rules name.
    ObjectKind(
        name="proxy",
        within=Within.SERVICE,
        entry=entry("ProxyEntry", proxies.ProxyBody),
        shown_by=proxies.get_proxy,
        change=proxies.change_proxy,
        is_single=True,
        standing=before_any(proxies.ProxyBody, ProxySettings),
        unordered=frozenset({"hosts"}),
    ),
    # After the teams that it names. What a document changes is a draft: an owner makes it active, and gives the token to the page.
    ObjectKind(
        name="provisioning",
        within=Within.SERVICE,
        entry=entry("ProvisioningEntry", provisioning.ProvisioningBody, without=("team_ids",), more={"teams": Sequence[_TeamSlug] | None}),
        shown_by=provisioning.get_provisioning,
        change=provisioning.set_provisioning,
        end=provisioning.remove_provisioning,
        is_single=True,
        secrets=("token",),
        sends_all=True,
        unordered=frozenset({"attributes_left_out", "teams"}),
        stored={"base_url": lambda url: url.rstrip("/"), "mapping": _stated_mapping},
        translate=_with_teams,
    ),
    # The keys name an API that the service stands for.
    ObjectKind(
        name="user_keys",
        within=Within.SERVICE,
        entry=entry("UserKeysEntry", user_keys.UserKeySettingsBody),
        shown_by=user_keys.get_user_key_settings,
        change=user_keys.change_user_key_settings,
        is_single=True,
        standing=before_any(user_keys.UserKeySettingsBody, UserKeySettings),
    ),
    # After the services that the rules are for.
    ObjectKind(
        name="trusted_issuers",
        within=Within.ORGANIZATION,
        entry=entry("TrustedIssuerEntry", trusted_issuers.NewTrustedIssuer, without=("name", "management_key_id")),
        shown_by=trusted_issuers.list_trusted_issuers,
        make=trusted_issuers.create_trusted_issuer,
        change=trusted_issuers.change_trusted_issuer,
        end=trusted_issuers.delete_trusted_issuer,
        key="name",
        parameter="rule_id",
        fixed=frozenset({"service_slug"}),
        together=(frozenset({"jwks_uri", "jwks"}),),
        needed=frozenset({"service_slug"}),
        stored={"jwks": _stored_keys},
    ),
)
