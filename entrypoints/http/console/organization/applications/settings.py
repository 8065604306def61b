"""The pages that change an application: who may sign in and where people come back to, sign-out, public keys, its name, and its end."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from core.domain.services.services import ServiceType, SignInPolicy
from entrypoints.http.console.kit.cells import Column, Tone, copied, in_words, when, words
from entrypoints.http.console.kit.forms import Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.resource_pages import act_pages, ending_pages, record_page, section_pages
from entrypoints.http.console.kit.resources import Act, Ending, Resource, Section
from entrypoints.http.console.kit.undo import undo_pages
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications import APPLICATION_LIST, slug_of
from entrypoints.http.console.organization.applications.states import setting_rows
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes.federation.agent_grants import end_agent_grants
from entrypoints.http.routes.federation.authorization_refusals import list_authorization_refusals
from entrypoints.http.routes.federation.logout_notices import list_logout_notices
from entrypoints.http.routes.federation.saml import get_saml_configuration
from entrypoints.http.routes.federation.token_preview import preview_tokens
from entrypoints.http.routes.services.api_keys import list_api_keys
from entrypoints.http.routes.services.client_secrets import list_client_secrets
from entrypoints.http.routes.services.service_claims import list_service_claims
from entrypoints.http.routes.services.services import change_service, delete_service, get_service, list_services, upload_service_logo

_PROXIED: Final = (("console.proxy.title", applications.PROXY),)
_BELOW_SIGN_IN: Final = (
    ("console.application_sessions.title", applications.SESSIONS),
    ("console.saml.title", applications.SAML),
    ("console.claims.title", applications.CLAIMS),
    ("console.preview.title", applications.PREVIEW),
    ("console.first_sign_in.title", applications.FIRST_SIGN_IN),
    ("console.refusals.title", applications.REFUSALS),
    ("console.logout_notices.title", applications.NOTICES),
)
_ADDRESS_TONES: Final = {"protected": Tone.GOOD, "here": Tone.WARN, "app": Tone.GOOD}


async def _ends_with_it(visit: PageVisit, application: Any) -> Sequence[tuple[str, int]]:
    listed = await visit.ask(list_services)
    one = next((row for row in listed.services if row.id == application.id), None)
    secrets = await visit.ask(list_client_secrets)
    keys = await visit.ask(list_api_keys, query={"limit": 1})
    return [
        ("console.applications.ends_subscriptions", 0 if one is None else one.subscription_count),
        ("console.applications.ends_plans", 0 if one is None else one.plan_count),
        ("console.applications.ends_secrets", len(secrets)),
        ("console.applications.ends_api_keys", keys.total),
    ]


def _page(
    name: str,
    page: str,
    position: PagePosition,
    *sections: Section,
    facts: tuple[Column, ...] = (),
    below: tuple[tuple[str, str, Endpoint], ...] = (),
    ending: Ending | None = None,
    acts: tuple[Act, ...] = (),
    title: str = "",
    template: str = "record.html",
    shown_above: tuple[str, ...] = (),
    more: Callable[[PageVisit, Any], Awaitable[Mapping[str, Any]]] | None = None,
    also: tuple[Endpoint, ...] = (),
) -> Resource:
    return Resource(
        template=template,
        more=more,
        also=also,
        shown_above=shown_above,
        name=name,
        position=position,
        at=applications.LIST,
        page=page,
        listed=list_services,
        columns=APPLICATION_LIST.columns,
        parameter="service_slug",
        key=slug_of,
        record=get_service,
        facts=facts,
        sections=sections,
        ending=ending,
        acts=acts,
        below=below,
        crumbs=applications.above if title else applications.above_list,
        titled=(lambda visit, _record: visit.text(title)) if title else None,
    )


async def _types(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("service_type", one, visit.text)) for one in ServiceType if one is not ServiceType.METADATA]


async def _policies(visit: PageVisit) -> Sequence[Choice]:
    """Who may come in, in the words in which the application was made."""
    return [
        Choice(one.value, visit.text(f"console.new_application.policy_{one}"), visit.text(f"console.new_application.policy_{one}_hint"))
        for one in SignInPolicy
    ]


async def _checked(visit: PageVisit, application: Any) -> Mapping[str, Any]:
    """Each sign-in address with what can be said at sight: whether answers travel protected, on one machine alone, or to an app."""
    found = []
    for uri in application.redirect_uris:
        kind = "protected" if uri.startswith("https://") else "here" if uri.startswith("http://") else "app"
        found.append((uri, visit.text(f"console.signing_in.address_{kind}"), _ADDRESS_TONES[kind]))
    return {
        "rows": await setting_rows(
            visit, (*_PROXIED, *_BELOW_SIGN_IN) if application.service_type is ServiceType.PROXY else _BELOW_SIGN_IN
        ),
        "addresses": found,
        "add": visit.here(f"{applications.SIGN_IN}/addresses") if visit.may(change_service) else "",
    }


SIGNING_IN: Final = _page(
    "signing_in",
    applications.SIGN_IN,
    applications.SIGN_IN_POSITION,
    Section(
        "addresses",
        shape(
            change_service,
            Asked("redirect_uris", hint="console.signing_in.redirect_uris_hint"),
            Asked("post_logout_redirect_uris", hint="console.signing_in.post_logout_hint"),
            Asked("initiate_login_uri", hint="console.signing_in.initiate_hint"),
            Asked("device_activation_uri", hint="console.signing_in.device_hint"),
        ),
    ),
    Section(
        "admission",
        shape(
            change_service,
            Asked("sign_in_policy", kind=InputKind.CARDS, choices=_policies, hint="console.signing_in.policy_hint"),
            Asked("trusted", hint="console.signing_in.trusted_hint"),
            Asked("is_agent", hint="console.signing_in.agent_hint"),
        ),
    ),
    Section(
        "providers",
        shape(
            change_service,
            Asked("codehost_scopes", hint="console.signing_in.scopes_hint"),
            Asked("websuite_scopes", hint="console.signing_in.scopes_hint"),
            Asked("officesuite_scopes", hint="console.signing_in.scopes_hint"),
        ),
    ),
    Section(
        "notices",
        shape(
            change_service,
            Asked("backchannel_logout_uri", hint="console.signing_out.uri_hint"),
            Asked("backchannel_logout_session_required", hint="console.signing_out.session_hint"),
            Asked("frontchannel_logout_uri", hint="console.signing_out.frame_hint"),
            Asked("frontchannel_logout_session_required", hint="console.signing_out.frame_session_hint"),
        ),
    ),
    acts=(Act("end-agent", end_agent_grants, asks=True, kind="danger", shows=lambda one: one.is_agent),),
    facts=(words("service_type", ServiceType), words("sign_in_policy", SignInPolicy)),
    template="organization/applications/sign_in.html",
    shown_above=("redirect_uris",),
    more=_checked,
    also=(get_saml_configuration, list_service_claims, preview_tokens, list_authorization_refusals, list_logout_notices),
)

PUBLIC_KEYS: Final = _page(
    "public_keys",
    applications.PUBLIC_KEYS,
    applications.CREDENTIALS_POSITION,
    Section("keys", shape(change_service, Asked("jwks", hint="console.public_keys.jwks_hint"))),
    Section("address", shape(change_service, Asked("jwks_uri", hint="console.public_keys.jwks_uri_hint"))),
    Section("algorithm", shape(change_service, Asked("id_token_alg", hint="console.public_keys.algorithm_hint"))),
    Section("access_tokens", shape(change_service, Asked("access_token_alg", hint="console.public_keys.access_tokens_hint"))),
    Section("bound_tokens", shape(change_service, Asked("dpop_bound_access_tokens", hint="console.public_keys.bound_tokens_hint"))),
    Section("profile", shape(change_service, Asked("profile", hint="console.public_keys.profile_hint"))),
    Section("audience", shape(change_service, Asked("assertion_audience", hint="console.public_keys.audience_hint"))),
    facts=(copied("client_id"),),
    title="console.public_keys.title",
)

SETTINGS: Final = _page(
    "application",
    applications.SETTINGS,
    applications.SETTINGS_POSITION,
    Section("basics", shape(change_service, "name", Asked("service_type", choices=_types, hint="console.application.type_hint"))),
    Section("metadata", shape(change_service, Asked("metadata", hint="console.application.metadata_hint"))),
    facts=(copied("id"), copied("slug"), when("created_at")),
    below=(("console.application_logo.title", applications.LOGO, upload_service_logo),),
    ending=Ending(delete_service, typed=lambda application: str(application.name), counts=_ends_with_it),
)


def _pages() -> Sequence[Endpoint]:
    made = []
    for resource in (SIGNING_IN, PUBLIC_KEYS, SETTINGS):
        made.append(record_page(resource))
        for section in resource.sections:
            made += section_pages(resource, section)
        for undoable in resource.undoables:
            made += undo_pages(undoable)
        for act in resource.acts:
            made += act_pages(resource, act)
        if resource.ending is not None:
            made += ending_pages(resource, resource.ending)
    return made


PAGES: Final[Sequence[Endpoint]] = _pages()
