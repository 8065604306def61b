"""The organization's own providers, with certificates, directory runs and identity assertions, and the domains that sign in there."""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from core.domain.errors import NotFound, Refusal
from core.domain.federation.directory_runs.runs import NamedAs, RunState
from core.domain.identity.realms import LoginPolicy
from core.domain.identity.upstream.connection_tests import ConnectionExchangeKind
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind
from core.domain.identity.upstream.identity_assertions import DRAFT, SUBJECT
from core.domain.identity.upstream.ldap.settings import LDAP_PRESETS
from core.domain.identity.upstream.providers import NAMES
from core.domain.identity.upstream.saml.assertions import PRESETS
from core.domain.tenancy.domains import JoinPolicy, faults_of
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Tone, code, copied, in_words, listed, number, plain, sentence, state, when, words
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.lists import latest_of
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Making, Resource, Section
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit
from entrypoints.http.console.organization.connections.connection_pages import (
    CONNECTION,
    EXCHANGES_AT,
    ONE,
    above,
    connection_name,
    steps_of,
)
from entrypoints.http.console.organization.connections.setup_links import settings_of
from entrypoints.http.console.organization.organization_tabs import DIRECTORIES, DIRECTORIES_ENTRY, DIRECTORIES_TAB, DOMAINS_TAB, position
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.routes.federation.directory_runs import (
    approve_directory_run,
    create_directory_run,
    decline_directory_run,
    end_privileged_people,
    get_directory_run,
    keep_privileged_people,
    list_directory_run_people,
    list_directory_runs,
    take_over_from_scim,
)
from entrypoints.http.routes.federation.identity_assertions import (
    AssertionSettingsBody,
    AssertionVerdictRecord,
    PresentedAssertion,
    check_provider_assertion,
    set_provider_assertions,
)
from entrypoints.http.routes.tenancy.connections import (
    WaitingCertificatePath,
    activate_upstream_provider,
    approve_connection_certificate,
    decline_connection_certificate,
    delete_former_certificate,
    list_connection_exchanges,
)
from entrypoints.http.routes.tenancy.domain_routes import (
    change_domain_route,
    create_domain_route,
    delete_domain_route,
    list_domain_routes,
    verify_domain_route,
)
from entrypoints.http.routes.tenancy.upstream_providers import (
    UpstreamProviderPath,
    change_upstream_provider,
    create_upstream_provider,
    delete_upstream_provider,
    list_upstream_providers,
)

CERTIFICATES: Final = f"{ONE}/certificates"
_APPROVE: Final = f"{CERTIFICATES}/{{fingerprint}}/approve"
_DECLINE: Final = f"{CERTIFICATES}/{{fingerprint}}/decline"
_DROP: Final = f"{CERTIFICATES}/former"
_POSITION: Final = position(DIRECTORIES_ENTRY, DIRECTORIES_TAB)


@console.get(CERTIFICATES, of=list_upstream_providers)
async def show_connection_certificates(call: Call[None, DoneLink, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Show the certificates of a provider, and ours there."""
    visit = PageVisit(call, postern)
    listed = await visit.ask(list_upstream_providers)
    provider = next((one for one in listed if str(one.id) == visit.path["provider_id"]), None)
    if provider is None:
        raise NotFound
    here = visit.here(CERTIFICATES)
    page = visit.show(
        "organization/connections/certificates.html",
        _POSITION,
        Head(
            title=visit.text("console.connection_certificates.title"),
            crumbs=(*above(visit)[:1], (provider.name, visit.here(ONE))),
            curl=visit.curl(list_upstream_providers),
            done=call.query.done,
        ),
        provider=provider,
        may_decide=visit.may(approve_connection_certificate),
        may_drop=visit.may(delete_former_certificate),
        here=here,
        set_up=visit.here(CONNECTION),
    )
    return Answer(page, 200)


@console.post(_APPROVE, of=approve_connection_certificate)
async def approve_certificate(call: Call[BoundForm, None, WaitingCertificatePath, Any], postern: Postern) -> Page:
    """Let a waiting certificate count."""
    visit = PageVisit(call, postern)
    await visit.ask(approve_connection_certificate)
    return redirect(f"{visit.here(CERTIFICATES)}?done=saved")


@console.post(_DECLINE, of=decline_connection_certificate)
async def decline_certificate(call: Call[BoundForm, None, WaitingCertificatePath, Any], postern: Postern) -> Page:
    """Decline a waiting certificate."""
    visit = PageVisit(call, postern)
    await visit.ask(decline_connection_certificate)
    return redirect(f"{visit.here(CERTIFICATES)}?done=saved")


@console.post(_DROP, of=delete_former_certificate)
async def drop_former(call: Call[BoundForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Delete our former key pair."""
    visit = PageVisit(call, postern)
    await visit.ask(delete_former_certificate)
    return redirect(f"{visit.here(CERTIFICATES)}?done=saved")


DIRECTORY_RUNS: Final = f"{ONE}/runs"
console.name(ONE, connection_name, beneath=DIRECTORY_RUNS)
_TONES: Final = {
    RunState.RUNNING: Tone.PLAIN,
    RunState.DONE: Tone.GOOD,
    RunState.FAILED: Tone.BAD,
    RunState.WAITING: Tone.WARN,
    RunState.AGREED: Tone.GOOD,
    RunState.LEFT: Tone.PLAIN,
    RunState.OVER: Tone.PLAIN,
}
_STATES: Final = {one: (f"console.directory_runs.{one.value}", tone) for one, tone in _TONES.items()}
_KIND: Final = sentence(lambda run, text: text(f"console.directory_runs.kind.{run.kind.value}"), "console.field.kind")
_COUNTS: Final = (
    number("read", "console.directory_runs.read"),
    number("came", "console.directory_runs.came"),
    number("changed", "console.directory_runs.changed"),
    number("ended", "console.directory_runs.ended"),
    number("held_back", "console.directory_runs.held_back"),
    number("left_out", "console.directory_runs.left_out"),
)
_NOBODY: Final[Mapping[str, Any]] = {"ending": (), "coming": (), "more_ends": "", "more_coming": ""}
_WORD: Final = (*_COUNTS, code("digest", "console.directory_runs.digest"))


def _waits(run: Any) -> bool:
    return bool(run.state is RunState.WAITING)


def _started(run: Any) -> str:
    return f"{run.started_at:%Y-%m-%d %H:%M}"


def _why(visit: PageVisit, reason: str) -> str:
    return visit.text(f"console.directory_runs.why.{reason}")


def _more(visit: PageVisit, many: int, shown: Sequence[object]) -> str:
    """An owner's word is about all, so the page says when it does not name all."""
    return visit.text("console.directory_runs.and_more", count=many - len(shown)) if 0 < len(shown) < many else ""


def _people(visit: PageVisit, people: Sequence[Any]) -> Sequence[tuple[str, str]]:
    return [(one.named, _why(visit, one.reason)) for one in people]


async def _decided(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    """Those about whom an owner may decide."""
    taken_over, privileged = _people(visit, run.taken_over), _people(visit, run.privileged)
    return {
        "taken_over": taken_over,
        "privileged": privileged,
        "more_taken_over": _more(visit, run.reasons.get("listed_by_scim", 0), taken_over),
        "more_privileged": _more(visit, run.reasons.get("may_more", 0), privileged),
    }


async def _named(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    ending, left_out, coming = (_people(visit, [one for one in run.people if one.what is what]) for what in NamedAs)
    reasons: Sequence[tuple[str, int]] = [(_why(visit, reason), count) for reason, count in run.reasons.items()]
    listed = await visit.ask(list_directory_runs)
    return {
        **await _decided(visit, run),
        "ending": ending,
        "coming": coming,
        "more_coming": _more(visit, run.came, coming),
        "left_out": left_out,
        "more_ends": _more(visit, run.held_back, ending),
        "more_left_out": _more(visit, run.left_out, left_out),
        "reasons": reasons,
        "waits": _waits(run),
        "is_plan": run.kind.value == "plan",
        "next_at": listed.next_at,
    }


async def _taking_over(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    return {**_NOBODY, **await _decided(visit, run), "privileged": ()}


async def _about_privileged(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    return {**_NOBODY, **await _decided(visit, run), "taken_over": ()}


async def _going_on(visit: PageVisit, run: Any) -> Mapping[str, Any]:
    return {**await _named(visit, run), "taken_over": (), "privileged": ()}


PEOPLE_OF_RUN: Final = Resource(
    name="directory_run_people",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=f"{DIRECTORY_RUNS}/{{run_id}}/people",
    listed=list_directory_run_people,
    is_log=True,
    columns=(
        plain("named", "console.directory_runs.people_named"),
        sentence(lambda one, text: text(f"console.directory_runs.what.{one.what.value}"), "console.directory_runs.people_what"),
        sentence(lambda one, text: text(f"console.directory_runs.why.{one.reason}"), "console.directory_runs.people_reason"),
    ),
    crumbs=above,
)


RUNS: Final = Resource(
    name="directory_runs",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=DIRECTORY_RUNS,
    listed=list_directory_runs,
    rows="runs",
    is_log=True,
    columns=(when("started_at", "console.directory_runs.started"), _KIND, state("state", _STATES), *_COUNTS[1:]),
    parameter="run_id",
    called=_started,
    titled=lambda visit, run: visit.text("console.directory_runs.named", called=_started(run)),
    record=get_directory_run,
    state=(lambda run: run.state, _STATES.__getitem__),
    facts=(
        _KIND,
        when("started_at", "console.directory_runs.started"),
        when("ended_at", "console.directory_runs.finished"),
        *_COUNTS,
        number("teams", "console.directory_runs.teams"),
        plain("fault", "console.directory_runs.fault"),
        code("digest", "console.directory_runs.digest"),
    ),
    acts=(
        Act(
            "go-on",
            approve_directory_run,
            asks=True,
            kind="",
            shows=_waits,
            facts=_WORD,
            seen=lambda run: str(run.digest),
            template="organization/connections/directory_run_question.html",
            more=_going_on,
        ),
        Act("leave", decline_directory_run, asks=True, shows=_waits, facts=_COUNTS),
        Act(
            "take-over",
            take_over_from_scim,
            asks=True,
            shows=lambda run: run.take_over_digest is not None,
            facts=(code("take_over_digest", "console.directory_runs.digest"),),
            seen=lambda run: str(run.take_over_digest),
            template="organization/connections/directory_run_question.html",
            more=_taking_over,
        ),
        *(
            Act(
                name,
                endpoint,
                asks=True,
                kind=kind,
                shows=lambda run: run.privileged_digest is not None,
                facts=(code("privileged_digest", "console.directory_runs.digest"),),
                seen=lambda run: str(run.privileged_digest),
                template="organization/connections/directory_run_question.html",
                more=_about_privileged,
            )
            for name, endpoint, kind in (("keep", keep_privileged_people, "quiet"), ("end", end_privileged_people, "danger"))
        ),
    ),
    crumbs=above,
    template="organization/connections/directory_run.html",
    more=_named,
    below=(("console.directory_run_people.title", PEOPLE_OF_RUN.at, list_directory_run_people),),
    also=(list_directory_runs,),
)


ASSERTIONS: Final = f"{ONE}/assertions"
_CHECK: Final = f"{ASSERTIONS}/check"


class AssertionSettingsForm(BoundForm, frozen=True, kw_only=True):
    issues: Line = ""
    subject: Line = ""
    issuer: Line = ""
    jwks_uri: Line = ""
    jwks: Lines = ""
    """As JSON."""


class PresentedAssertionForm(BoundForm, frozen=True, kw_only=True):
    assertion: Lines = ""


async def _shown(
    visit: PageVisit,
    *,
    done: str = "",
    errors: Mapping[str, str] = NO_ERRORS,
    sent: Mapping[str, Any] | None = None,
    verdict: AssertionVerdictRecord | None = None,
) -> bytes:
    """`sent` is what a refused form said."""
    providers = await visit.ask(list_upstream_providers)
    provider = next((one for one in providers if str(one.id) == visit.path["provider_id"]), None)
    if provider is None:
        raise NotFound
    jwks = provider.assertion_jwks
    kept = {
        "issues": provider.issues_assertions,
        "subject": provider.assertion_subject,
        "issuer": provider.assertion_issuer,
        "jwks_uri": provider.assertion_jwks_uri,
        "jwks": "" if jwks is None else json.dumps(jwks, indent=2),
    }
    return visit.show(
        "organization/connections/assertions.html",
        _POSITION,
        Head(
            title=visit.text("console.assertions.title"),
            crumbs=(*above(visit)[:1], (provider.name, visit.here(ONE))),
            curl=visit.curl(set_provider_assertions),
            done=done,
            errors=errors,
        ),
        provider=provider,
        draft=DRAFT,
        ours=[(visit.text("console.assertions.audience"), Cell("copy", visit.postern.foundation.public_url))],
        kept=sent or kept,
        may_decide=visit.may(set_provider_assertions),
        may_check=visit.may(check_provider_assertion),
        save=visit.here(ASSERTIONS),
        check=visit.here(_CHECK),
        exchanges=visit.here(EXCHANGES_AT) if visit.may(list_connection_exchanges) else "",
        verdict=verdict,
    )


@console.get(ASSERTIONS, of=list_upstream_providers, also=(set_provider_assertions, check_provider_assertion, list_connection_exchanges))
async def show_assertions(call: Call[None, DoneLink, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Show whether a provider issues identity assertions."""
    return Answer(await _shown(PageVisit(call, postern), done=call.query.done), 200)


@console.post(ASSERTIONS, of=set_provider_assertions, also=(list_upstream_providers,))
async def save_assertions(call: Call[AssertionSettingsForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Decide whether a provider issues identity assertions."""
    visit, form = PageVisit(call, postern), call.body
    sent = {name: getattr(form, name) for name in AssertionSettingsBody.__struct_fields__}
    try:
        keys = json.loads(form.jwks) if form.jwks.strip() else None
    except (ValueError, RecursionError):
        keys = ""
    if keys is not None and not isinstance(keys, dict):
        return Answer(await _shown(visit, errors={"jwks": visit.text("console.assertions.no_keys")}, sent=sent), 400)
    body = AssertionSettingsBody(
        issues=bool(form.issues),
        subject=form.subject.strip() or SUBJECT,
        issuer=form.issuer.strip(),
        jwks_uri=form.jwks_uri.strip(),
        jwks=keys,
    )
    try:
        await visit.ask(set_provider_assertions, body=body)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _shown(visit, errors={"": " ".join(said.values())}, sent=sent), status)
    return redirect(f"{visit.here(ASSERTIONS)}?done=saved")


@console.post(_CHECK, of=check_provider_assertion, also=(list_upstream_providers,))
async def check_assertion(call: Call[PresentedAssertionForm, None, UpstreamProviderPath, Any], postern: Postern) -> Page:
    """Check an identity assertion of a provider."""
    visit = PageVisit(call, postern)
    verdict = await visit.ask(check_provider_assertion, body=PresentedAssertion(assertion=call.body.assertion.strip()))
    return Answer(await _shown(visit, verdict=verdict), 200)


_PROVIDER_STATES: Final = {
    "draft": ("console.state.draft", Tone.WARN),
    "tested": ("console.state.tested", Tone.WARN),
    "active": ("console.state.active", Tone.GOOD),
    "off": ("console.state.off", Tone.WARN),
}


async def _products(visit: PageVisit) -> Sequence[Choice]:
    saml, oidc, ldap = (in_words("kind", kind, visit.text) for kind in (ProviderKind.SAML, ProviderKind.OIDC, ProviderKind.LDAP))
    return [
        *(Choice(one.value, preset.name, saml) for one, preset in PRESETS.items()),
        Choice(ProviderKind.SAML.value, visit.text("console.providers.another"), saml),
        Choice(ProviderKind.OIDC.value, visit.text("console.providers.another"), oidc),
        *(Choice(one.value, usual.name, ldap) for one, usual in LDAP_PRESETS.items()),
        Choice(ProviderKind.LDAP.value, visit.text("console.providers.another"), ldap),
    ]


def _chosen(product: str) -> Mapping[str, Any]:
    if product in frozenset(PRESETS):
        return {"kind": ProviderKind.SAML, "preset": product}
    if product in frozenset(LDAP_PRESETS):
        return {"kind": ProviderKind.LDAP, "ldap_preset": product}
    return {"kind": product}


def _named_provider(form: Any) -> Any:
    """The form with a name for the button of the sign-in page: the product's, or the host of the issuer."""
    if form.name.strip():
        return form
    products = {one.value: preset.name for one, preset in PRESETS.items()} | {one.value: usual.name for one, usual in LDAP_PRESETS.items()}
    try:
        name = products[form.kind] if form.kind in products else urlsplit(form.issuer.strip()).hostname or ""
    except ValueError:
        # The endpoint says what is wrong with the issuer.
        name = ""
    return msgspec.structs.replace(form, name=name)


def _oidc(name: str, **more: Any) -> Asked:
    return Asked(name, under=("kind", ProviderKind.OIDC), **more)


def _saml(name: str, **more: Any) -> Asked:
    return Asked(name, under=("kind", ProviderKind.SAML), shown=_within(attrgetter("saml"), name), **more)


def _ldap(name: str, **more: Any) -> Asked:
    """What a directory has a usual value for waits; hosts, account and base are asked in sight."""
    waits = name not in {"hosts", "bind_dn", "base_dn"}
    return Asked(name, under=("kind", ProviderKind.LDAP), shown=_within(attrgetter("ldap"), name), can_wait=waits, **more)


def _within(settings: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """A value of a provider's settings of one kind, of which other kinds have none."""
    return lambda one: None if settings(one) is None else getattr(settings(one), name)


_SCOPES: Final = _oidc("scopes", hint="console.providers.scopes_hint")
_MAPPING: Final = Asked("profile_mapping", hint="console.providers.mapping_hint")


_OUTCOMES: Final = {True: ("console.state.taken", Tone.GOOD), False: ("console.state.refused", Tone.BAD)}


def _state(one: Any) -> str:
    return "off" if one.state is ConnectionState.ACTIVE and not one.enabled else one.state.value


def _may_be_activated(one: Any) -> bool:
    """A directory has to be tested before."""
    return one.state is ConnectionState.TESTED or (one.state is ConnectionState.DRAFT and one.kind is ProviderKind.OIDC)


def _keeps_in_step(one: Any) -> bool:
    return bool(one.ldap is not None and one.ldap.keeps_in_step and one.enabled)


EXCHANGES: Final = Resource(
    name="connection_exchanges",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=EXCHANGES_AT,
    listed=list_connection_exchanges,
    rows="exchanges",
    is_log=True,
    columns=(
        when("created_at", "console.field.happened_at"),
        code("reference", "console.field.reference"),
        words("kind", ConnectionExchangeKind),
        state("succeeded", _OUTCOMES),
        plain("reason", beside="advice"),
        code(lambda one: one.certificate[:16], "console.field.signed_by"),
        number("times"),
        when("last_at"),
    ),
    crumbs=above,
)
_LATEST: Final = (EXCHANGES.columns[0], words("kind", ConnectionExchangeKind), state("succeeded", _OUTCOMES), plain("reason"))


async def _happened(visit: PageVisit, provider: Any) -> Mapping[str, Any]:
    """What happens at the provider, once it is active, and the steps that led there."""
    is_active = provider.state is ConnectionState.ACTIVE
    listed = is_active and visit.may(list_connection_exchanges)
    is_ldap_draft = provider.ldap is not None and not is_active
    return {
        **await steps_of(visit, provider),
        "latest": await latest_of(EXCHANGES, visit, _LATEST) if listed else None,
        # The form is a step of its own, for whoever may change it.
        "typed_at": visit.here(f"{ONE}/ldap")
        if provider.ldap is not None and not is_active and visit.may(change_upstream_provider)
        else "",
        "is_ldap_draft": is_ldap_draft,
        "has_domain": is_ldap_draft and await visit.postern.tenancy.connections.has_proved_domain(visit.call.caller),
        "new_domain": visit.here(f"{DOMAINS.at}/~new") if visit.may(create_domain_route) else "",
    }


PROVIDERS: Final = Resource(
    name="providers",
    position=position(DIRECTORIES_ENTRY, DIRECTORIES_TAB),
    at=DIRECTORIES,
    listed=list_upstream_providers,
    columns=(plain("name"), words("kind", ProviderKind), code("issuer"), state(_state, _PROVIDER_STATES), when("created_at")),
    parameter="provider_id",
    state=(_state, _PROVIDER_STATES.__getitem__),
    facts=(
        words("kind", ProviderKind),
        listed("scopes"),
        copied("id"),
        when("created_at"),
        when("updated_at"),
    ),
    making=Making(
        shape(
            create_upstream_provider,
            # The product says what else is asked.
            Asked(
                "kind",
                kind=InputKind.CARDS,
                choices=_products,
                label="console.field.preset",
                stands_for=_chosen,
                at_first="",
                is_needed=True,
            ),
            Asked("name", hint="console.providers.name_hint"),
            _oidc("issuer", kind=InputKind.TEXT, hint="console.providers.issuer_hint", is_needed=True),
            _oidc("client_id", kind=InputKind.TEXT, is_needed=True),
            _oidc("client_secret", kind=InputKind.SECRET, is_needed=True),
        ),
        filled=_named_provider,
        says=True,
    ),
    sections=(
        Section(
            "change",
            shape(
                change_upstream_provider,
                "name",
                _oidc("client_id", kind=InputKind.TEXT),
                _oidc("client_secret", kind=InputKind.SECRET, hint="console.siem.secret_hint"),
                "enabled",
                _SCOPES,
                _oidc("second_factor_values", hint="console.providers.factors_hint"),
                _MAPPING,
            ),
            says=True,
        ),
        Section(
            "saml",
            shape(
                change_upstream_provider,
                Asked("issuer", under=("kind", ProviderKind.SAML), kind=InputKind.TEXT, hint="console.providers.entity_id_hint"),
                _saml("sso_url"),
                _saml("slo_url"),
                _saml("metadata_url"),
                _saml("subject_source", hint="console.providers.subject_source_hint"),
                _saml("email_sources", hint="console.providers.email_sources_hint"),
                _saml("wants_encrypted"),
                _saml("requested_contexts"),
                Asked("second_factor_values", under=("kind", ProviderKind.SAML), hint="console.providers.factors_hint"),
            ),
            says=True,
        ),
        Section(
            "ldap",
            shape(
                change_upstream_provider,
                _ldap("hosts", hint="console.providers.hosts_hint"),
                _ldap("bind_dn", hint="console.providers.bind_dn_hint"),
                Asked(
                    "bind_password", kind=InputKind.SECRET, under=("kind", ProviderKind.LDAP), hint="console.providers.bind_password_hint"
                ),
                _ldap("base_dn", hint="console.providers.base_dn_hint"),
                _ldap("ca_certificates", kind=InputKind.LONG, hint="console.providers.authorities_hint"),
                _ldap("start_tls"),
                _ldap("search_scope"),
                _ldap("person_filter", kind=InputKind.TEXT),
                _ldap("sign_in_attributes", hint="console.providers.sign_in_attributes_hint"),
                _ldap("identity_attribute", hint="console.providers.identity_attribute_hint"),
                _ldap("address_attribute", hint="console.providers.address_attribute_hint"),
                _ldap("groups_attribute"),
                _ldap("lockout_threshold", hint="console.providers.lockout_hint"),
                _ldap("lockout_minutes"),
                _ldap("accepts_lockouts", hint="console.providers.accepts_lockouts_hint"),
                _ldap("keeps_in_step", hint="console.providers.keeps_in_step_hint"),
                _ldap("step_minutes"),
            ),
            says=True,
            folds=True,
        ),
    ),
    acts=(
        Act(
            "activate",
            activate_upstream_provider,
            asks=True,
            shows=_may_be_activated,
            facts=settings_of(lambda one: one),
            seen=lambda one: str(one.digest),
        ),
        Act("run", create_directory_run, shows=_keeps_in_step),
    ),
    below=(
        ("console.connection.title", CONNECTION, list_upstream_providers),
        ("console.connection_certificates.title", CERTIFICATES, list_upstream_providers),
        ("console.assertions.title", ASSERTIONS, list_upstream_providers),
        ("console.connection_exchanges.title", EXCHANGES_AT, list_connection_exchanges),
        ("console.directory_runs.title", DIRECTORY_RUNS, list_directory_runs),
    ),
    ending=Ending(delete_upstream_provider),
    template="organization/connections/provider.html",
    more=_happened,
    also=(list_connection_exchanges,),
)


_DOMAIN_STATES: Final = {True: ("console.state.proved", Tone.GOOD), False: ("console.state.not_proved", Tone.WARN)}


async def _providers(visit: PageVisit) -> Sequence[Choice]:
    """The organization's own providers, then those of the installation."""
    own = [Choice(str(one.id), one.name) for one in await visit.ask(list_upstream_providers)]
    return [*own, *(Choice(provider.value, name) for provider, name in NAMES.items())]


_PROVIDER: Final = Asked("upstream_provider_id", choices=_providers)

DOMAINS: Final = Resource(
    name="domains",
    position=position(DIRECTORIES_ENTRY, DOMAINS_TAB),
    at=f"{DIRECTORIES}/domains",
    listed=list_domain_routes,
    columns=(
        plain("domain"),
        state("verified", _DOMAIN_STATES),
        words("login_policy", LoginPolicy),
        words("join_policy", JoinPolicy),
        when("checked_at"),
    ),
    parameter="domain_id",
    called=lambda one: str(one.domain),
    state=(lambda one: one.verified, _DOMAIN_STATES.__getitem__),
    facts=(
        copied("txt_name"),
        copied("txt_value"),
        code("file_url"),
        words("login_policy", LoginPolicy),
        words("join_policy", JoinPolicy),
        when("verified_at"),
        when("checked_at"),
        when("created_at"),
    ),
    making=Making(
        shape(create_domain_route, "domain", _PROVIDER, "login_policy", "join_policy"),
        faults=lambda body: faults_of(body.domain, body.upstream_provider_id, body.login_policy),
    ),
    sections=(Section("change", shape(change_domain_route, _PROVIDER, "login_policy", "join_policy")),),
    acts=(Act("verify", verify_domain_route, said=lambda tried, _: (tried.verified, tried.message)),),
    ending=Ending(delete_domain_route),
)


PAGES: Final = (
    show_connection_certificates,
    approve_certificate,
    decline_certificate,
    drop_former,
    *pages(RUNS),
    *pages(PEOPLE_OF_RUN),
    show_assertions,
    save_assertions,
    check_assertion,
    *pages(PROVIDERS),
    *pages(EXCHANGES),
    *pages(DOMAINS),
)
