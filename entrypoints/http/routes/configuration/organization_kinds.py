"""The kinds of objects that belong to an organization, in the order in which they are made."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identity.registering import listed_domain
from core.domain.identity.upstream.connections import ProviderKind
from core.domain.identity.upstream.ldap.settings import LdapChange
from core.domain.identity.upstream.providers import Provider
from core.domain.languages import Language
from core.domain.platform.configuration.objects import ORGANIZATION, ObjectPlace
from core.domain.platform.configuration.planning import SortRules
from core.domain.tenancy.profile_fields import read_rule
from core.domain.tenancy.sign_in_rules import SignInRules
from core.domain.texts.rules import OwnText, canonical
from core.frozen import names_of
from entrypoints.http.machinery.fields import example
from entrypoints.http.routes.configuration.directory_hosts import stored_authorities, stored_hosts
from entrypoints.http.routes.configuration.entries import entry
from entrypoints.http.routes.configuration.kinds import Fields, ObjectKind, References, Within
from entrypoints.http.routes.configuration.saml_metadata import stored_pem
from entrypoints.http.routes.federation import scim_settings
from entrypoints.http.routes.platform import governance
from entrypoints.http.routes.tenancy import (
    branding,
    domain_routes,
    domains,
    mail_servers,
    oauth_credentials,
    organizations,
    profile_fields,
    roles,
    siem,
    sign_in_rules,
    teams,
    upstream_providers,
    webhooks,
)
from entrypoints.http.routes.tenancy.texts import spoken_languages, texts

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
        entry=entry("LanguagesEntry", spoken_languages.LanguagesPatch),
        shown_by=spoken_languages.get_languages,
        change=spoken_languages.change_languages,
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
