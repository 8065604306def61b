"""The kinds of objects that are, or belong to, services, in the order in which they are made."""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from core.domain.errors import BadRequest
from core.domain.federation.saml.configurations import Configuration
from core.domain.lines import one_line
from core.domain.outbound import client_keys
from core.domain.platform.configuration.objects import SERVICE, SERVICE_ROLES, ObjectPlace
from core.domain.services.proxies import ProxySettings
from core.domain.services.user_keys import UserKeySettings
from entrypoints.http.routes.configuration.entries import entry
from entrypoints.http.routes.configuration.kinds import Fields, ObjectKind, References, Within, before_any
from entrypoints.http.routes.configuration.organization_kinds import lower
from entrypoints.http.routes.configuration.saml_metadata import SamlServiceProvider, metadata, stored_endpoints, stored_pem
from entrypoints.http.routes.federation import saml
from entrypoints.http.routes.services import (
    assignments,
    permissions,
    plans,
    proxies,
    resource_servers,
    service_claims,
    service_roles,
    services,
    user_keys,
)
from entrypoints.http.routes.tenancy import trusted_issuers

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
        entry=entry("PermissionEntry", permissions.NewServicePermission, without=("key",)),
        shown_by=permissions.list_service_permissions,
        make=permissions.create_service_permission,
        change=permissions.change_service_permission,
        end=permissions.delete_service_permission,
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
        shown_by=assignments.list_assignments,
        make=assignments.create_assignment,
        end=assignments.delete_assignment,
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
