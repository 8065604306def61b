"""SAML of an application: its configuration, the upload of its metadata, its certificate and the guided change of it, and the last
messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.errors import Conflict, NotFound, Refusal
from core.domain.federation.saml.messages import ExchangeKind
from core.domain.saml import LONGEST_METADATA, NameIdFormat
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Tone, code, plain, state, when, words
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import WAS, Asked, Choice, InputKind, shape
from entrypoints.http.console.kit.lists import list_page
from entrypoints.http.console.kit.resources import Resource
from entrypoints.http.console.kit.sent_forms import (
    WrongInput,
    body_of,
    changed,
    drawn,
    explained,
    moved,
    present_values,
    sealed,
    sent_texts,
    texts_of,
)
from entrypoints.http.console.kit.undo import Undoable, changing, noted, offered, undo_pages
from entrypoints.http.console.kit.visit import NO_ERRORS, ActLink, AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization import applications
from entrypoints.http.console.organization.applications.making import ApplicationValues
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line, Lines, ServicePath
from entrypoints.http.routes.federation.saml import (
    activate_saml_certificate,
    configure_saml,
    create_saml_certificate,
    disable_saml,
    get_saml_certificates,
    get_saml_configuration,
    list_saml_exchanges,
    upload_saml_metadata,
)

_ACTIVATE_PRESSED: Final = button("console.saml.activate")

_OFF_PRESSED: Final = button("console.saml.off")

_TEMPLATES: Final = "organization/applications/saml"
_UPLOAD: Final = f"{applications.SAML}/metadata"
_CONFIGURE: Final = f"{applications.SAML}/configuration"
_OFF: Final = f"{applications.SAML}/off"
_ACTIVATE: Final = f"{applications.SAML_CERTIFICATE}/activate"


async def _formats(_visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, one.short) for one in NameIdFormat]


_SHAPE: Final = shape(
    configure_saml,
    Asked("enabled", label="console.saml.enabled", hint="console.saml.enabled_hint"),
    Asked("entity_id", kind=InputKind.TEXT, hint="console.saml.entity_id_hint"),
    Asked("acs_url", hint="console.saml.acs_url_hint"),
    Asked("slo_url", hint="console.saml.slo_url_hint"),
    Asked("name_id_format", choices=_formats, hint="console.saml.name_id_format_hint"),
    Asked("attribute_mapping", kind=InputKind.JSON, hint="console.saml.attribute_mapping_hint"),
    "sign_assertions",
    "sign_response",
    "require_signed_requests",
)


# What a reader looks for; the rest is in the form.
_SAID: Final = frozenset({"enabled", "entity_id", "acs_url", "slo_url"})
_UNDOABLE: Final = Undoable(
    name="saml",
    page=applications.SAML,
    at=_CONFIGURE,
    shape=_SHAPE,
    find=lambda visit: visit.ask(get_saml_configuration),
    position=applications.SIGN_IN_POSITION,
    # The endpoint wants to know in each call whether SAML is on.
    fixed=lambda configuration: {"enabled": configuration.enabled},
)


class MetadataForm(BoundForm, frozen=True, kw_only=True):
    """The metadata as a file, or pasted."""

    file: bytes = b""
    text: Lines = ""


class CertificateForm(BoundForm, frozen=True, kw_only=True):
    following: Line = ""
    """Not empty: the certificate follows the active one, and does not sign yet."""


def _values(visit: PageVisit) -> Sequence[tuple[str, Cell]]:
    values = ApplicationValues(
        issuer=visit.postern.foundation.public_url,
        organization=visit.path["org_slug"],
        service=visit.path["service_slug"],
        client_id="",
        redirect_uris=(),
        client_secret="",
        access_token_alg="",
    )
    named = (
        ("metadata_address", f"{values.saml}/metadata"),
        ("our_entity_id", values.saml),
        ("sso_url", f"{values.saml}/sso"),
        ("our_slo_url", f"{values.saml}/slo"),
    )
    return [(visit.text(f"console.saml.{name}"), Cell("copy", value)) for name, value in named]


def saml_state(visit: PageVisit, configuration: Any) -> tuple[str, Tone]:
    if not configuration.enabled:
        return visit.text("console.state.off"), Tone.WARN
    if not configuration.has_certificate:
        return visit.text("console.saml.no_certificate"), Tone.WARN
    return visit.text("console.state.active"), Tone.GOOD


async def _shown(
    visit: PageVisit,
    configuration: Any,
    *,
    done: str = "",
    errors: Mapping[str, str] = NO_ERRORS,
    given: Mapping[str, Any] | None = None,
    meanwhile: Sequence[tuple[str, str]] = (),
) -> bytes:
    present = texts_of(_SHAPE.inputs, configuration)
    head = Head(
        title=visit.text("console.saml.title"),
        state=saml_state(visit, configuration),
        crumbs=applications.above(visit),
        endings=[ActLink(visit.text("console.saml.off"), visit.here(_OFF), asks=True, kind="danger")]
        if configuration.enabled and visit.may(disable_saml)
        else [],
        curl=visit.curl(get_saml_configuration),
        done=done,
        errors=errors,
    )
    inputs = await drawn(visit, _SHAPE.inputs, present)
    configure = visit.here(_CONFIGURE)
    return visit.show(
        f"{_TEMPLATES}/saml.html",
        applications.SIGN_IN_POSITION,
        head,
        configuration=configuration,
        values=_values(visit),
        certificate=visit.here(applications.SAML_CERTIFICATE),
        facts=(),
        empty=None,
        told=None,
        opened="",
        at_fault=configure if given is not None else None,
        sections=[
            (
                visit.text("console.saml.by_hand"),
                configure,
                inputs if given is None else await drawn(visit, _SHAPE.inputs, given),
                {WAS: sealed(present)},
                visit.text("console.save"),
                present_values(visit, [one for one in inputs if one[0].name in _SAID]),
                False,
            )
        ]
        if visit.may(configure_saml)
        else [],
        below=[
            (visit.text(f"console.{name}.title"), visit.here(at))
            for name, at, of in (
                ("saml_certificate", applications.SAML_CERTIFICATE, get_saml_configuration),
                ("saml_exchanges", applications.SAML_EXCHANGES, list_saml_exchanges),
            )
            if visit.may(of)
        ],
        upload=visit.here(_UPLOAD) if visit.may(upload_saml_metadata) else "",
        meanwhile=meanwhile,
        undos=await offered(visit, configuration, (_UNDOABLE,)),
    )


@console.get(applications.SAML, of=get_saml_configuration)
async def show_saml(call: Call[None, DoneLink, ServicePath, Any], postern: Postern) -> Page:
    """Show the SAML configuration of an application."""
    visit = PageVisit(call, postern)
    return Answer(await _shown(visit, await visit.ask(get_saml_configuration), done=call.query.done), 200)


@console.post(_UPLOAD, of=upload_saml_metadata, accepts=FormWithFile(2 * LONGEST_METADATA + (16 << 10)))
async def upload_metadata(call: Call[MetadataForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Configure SAML by the application's metadata."""
    visit = PageVisit(call, postern)
    document = call.body.file or call.body.text.strip().encode()
    if not document:
        errors: Mapping[str, str] = {"text": visit.text("console.saml.metadata_missing")}
        return Answer(await _shown(visit, await visit.ask(get_saml_configuration), errors=errors), 400)
    try:
        await visit.ask(upload_saml_metadata, body=document)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _shown(visit, await visit.ask(get_saml_configuration), errors={"text": " ".join(said.values())}), status)
    return redirect(f"{visit.here(applications.SAML)}?done=saved")


async def _configure(call: AnyCall, postern: Postern) -> Page:
    """Change the SAML configuration by hand."""
    visit, form = PageVisit(call, postern), call.body
    own = changed(_SHAPE.inputs, form)
    if not own:
        return redirect(f"{visit.here(applications.SAML)}?done=unchanged")
    configuration = await visit.ask(get_saml_configuration)
    given = sent_texts(_SHAPE.inputs, form)
    if others := moved(_SHAPE.inputs, form, configuration):
        now = texts_of(others, configuration)
        meanwhile = [(visit.text(one.label), now[one.field]) for one in others]
        return Answer(await _shown(visit, configuration, given=given, meanwhile=meanwhile), status_of(Conflict()))
    try:
        async with changing(visit, noted(_UNDOABLE, visit, own, configuration, form)):
            await visit.ask(configure_saml, body=body_of(_SHAPE, form, only=own, fixed=_UNDOABLE.fixed(configuration)))
    except (WrongInput, Refusal) as problem:
        errors, status = explained(visit, problem, _SHAPE.inputs)
        return Answer(await _shown(visit, configuration, errors=errors, given=given), status)
    return redirect(f"{visit.here(applications.SAML)}?done=saved")


configure_by_form: Final = console.post(_CONFIGURE, of=configure_saml)(
    stated(_configure, "configure_saml_by_form", _CONFIGURE, body=_SHAPE.form)
)


@console.get(_OFF, of=disable_saml)
async def ask_to_turn_saml_off(call: Call[None, None, ServicePath, Any], postern: Postern) -> Page:
    """Ask before SAML is turned off."""
    visit = PageVisit(call, postern)
    return Answer(_question(visit, "off", disable_saml, (_OFF, applications.SAML)), 200)


@console.post(_OFF, of=disable_saml)
async def turn_saml_off(call: Call[BoundForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Turn SAML off, and delete its certificates."""
    visit = PageVisit(call, postern)
    await visit.ask(disable_saml)
    return redirect(f"{visit.here(applications.SAML)}?done={_OFF_PRESSED}")


def _above(visit: PageVisit) -> Sequence[tuple[str, str]]:
    """The crumbs of a page below the configuration."""
    return (*applications.above(visit), (visit.text("console.saml.title"), visit.here(applications.SAML)))


def _question(visit: PageVisit, name: str, endpoint: Endpoint, at: tuple[str, str]) -> bytes:
    """`at` has the addresses of the form, and of the page that one goes back to."""
    action, back = at
    ends = endpoint is disable_saml
    return visit.show(
        "question.html",
        applications.SIGN_IN_POSITION,
        Head(title=visit.text(f"console.saml.{name}_title"), crumbs=_above(visit), curl=visit.curl(endpoint)),
        explained=visit.text(f"console.saml.{name}_text"),
        action=visit.here(action),
        back=visit.here(back),
        button=visit.text(f"console.saml.{name}"),
        kind="final" if ends else "primary",
        ends=(),
        wanted="",
    )


async def _certificate_page(visit: PageVisit, *, done: str = "", errors: Mapping[str, str] = NO_ERRORS) -> bytes:
    configuration = await visit.ask(get_saml_configuration)
    standing = await visit.ask(get_saml_certificates) if configuration.has_certificate else None
    following = None if standing is None else standing.next
    head = Head(
        title=visit.text("console.saml_certificate.title"),
        state=None if standing is None else _ends(visit, standing),
        crumbs=_above(visit),
        curl=visit.curl(get_saml_certificates),
        done=done,
        errors=errors,
    )
    text = visit.text
    facts = (
        [
            (text("console.saml_certificate.valid_until"), Cell("time", standing.valid_until)),
            (text("console.saml_certificate.last_signed"), _moment(standing.last_signed_at)),
            (text("console.saml_certificate.fetched"), _moment(standing.metadata_fetched_at)),
            (text("console.field.id"), Cell("copy", str(standing.id))),
        ]
        if standing is not None
        else []
    )
    step = 0 if standing is None else 1 if following is None else 2
    return visit.show(
        f"{_TEMPLATES}/saml_certificate.html",
        applications.SIGN_IN_POSITION,
        head,
        may_change=visit.may(create_saml_certificate),
        enabled=configuration.enabled,
        configuration=visit.here(applications.SAML),
        facts=facts,
        step=step,
        standing=standing,
        following=following,
        metadata_address=_values(visit)[0][1].value,
        make=visit.here(applications.SAML_CERTIFICATE),
        activate=visit.here(_ACTIVATE),
    )


def _moment(at: Any) -> Cell:
    return Cell("none", "") if at is None else Cell("time", at)


def _ends(visit: PageVisit, standing: Any) -> tuple[str, Tone]:
    days = (standing.valid_until - visit.postern.foundation.clock.now()).days
    if days > _SOON:
        return visit.text("console.state.active"), Tone.GOOD
    return visit.text("console.saml_certificate.ends_soon", count=max(days, 0)), Tone.BAD


# The first mail that warns of a certificate's end comes so many days before it.
_SOON: Final = 60


@console.get(applications.SAML_CERTIFICATE, of=get_saml_configuration, also=(get_saml_certificates,))
async def show_certificate(call: Call[None, DoneLink, ServicePath, Any], postern: Postern) -> Page:
    """Show the certificate of an application, and the state of a change to the next one."""
    return Answer(await _certificate_page(PageVisit(call, postern), done=call.query.done), 200)


@console.post(applications.SAML_CERTIFICATE, of=create_saml_certificate)
async def make_certificate(call: Call[CertificateForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Make the first certificate, or the next one. A certificate that signs is never replaced by this form."""
    visit = PageVisit(call, postern)
    configuration = await visit.ask(get_saml_configuration)
    follows = bool(call.body.following)
    if configuration.has_certificate is not follows:
        # The page is out of date: somebody else has made or deleted a certificate meanwhile.
        return Answer(await _certificate_page(visit), status_of(Conflict()))
    try:
        await visit.ask(create_saml_certificate, query={"activate": not follows})
    except Refusal as problem:
        errors, status = explained(visit, problem)
        return Answer(await _certificate_page(visit, errors=errors), status)
    return redirect(f"{visit.here(applications.SAML_CERTIFICATE)}?done=made")


@console.get(_ACTIVATE, of=activate_saml_certificate)
async def ask_to_activate(call: Call[None, None, ServicePath, Any], postern: Postern) -> Page:
    """Ask before the next certificate signs."""
    visit = PageVisit(call, postern)
    page = _question(visit, "activate", activate_saml_certificate, (_ACTIVATE, applications.SAML_CERTIFICATE))
    return Answer(page, 200)


@console.post(_ACTIVATE, of=activate_saml_certificate)
async def activate_next(call: Call[BoundForm, None, ServicePath, Any], postern: Postern) -> Page:
    """Let the next certificate sign. The old one ends."""
    visit = PageVisit(call, postern)
    try:
        await visit.ask(activate_saml_certificate)
    except NotFound:
        # The form was sent twice, or somebody else was quicker.
        await visit.ask(get_saml_certificates)
    return redirect(f"{visit.here(applications.SAML_CERTIFICATE)}?done={_ACTIVATE_PRESSED}")


def _outcome(exchange: Any) -> str:
    return "taken" if exchange.succeeded else "refused"


EXCHANGES: Final = Resource(
    name="saml_exchanges",
    position=applications.SIGN_IN_POSITION,
    at=applications.SAML_EXCHANGES,
    listed=list_saml_exchanges,
    rows="exchanges",
    is_log=True,
    columns=(
        when("created_at"),
        words("kind", ExchangeKind),
        state(
            _outcome,
            {"taken": ("console.saml_exchanges.taken", Tone.GOOD), "refused": ("console.saml_exchanges.refused", Tone.BAD)},
        ),
        plain("reason", beside="advice"),
        code("status", "console.saml_exchanges.status"),
        code("message_id", "console.saml_exchanges.message"),
    ),
    crumbs=_above,
)

PAGES: Final = (
    show_saml,
    upload_metadata,
    configure_by_form,
    *undo_pages(_UNDOABLE),
    ask_to_turn_saml_off,
    turn_saml_off,
    show_certificate,
    make_certificate,
    ask_to_activate,
    activate_next,
    list_page(EXCHANGES),
)
