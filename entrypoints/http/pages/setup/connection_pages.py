"""Set up the sign-in with a directory with a set-up link: choose the directory, copy our values, give its metadata, and try it."""

from collections.abc import Mapping
from datetime import date
from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identity.upstream.connections import LONGEST_SOURCE, ProviderKind, SamlSettings, addresses
from core.domain.identity.upstream.ldap.settings import LDAP_PRESETS, LdapChange, LdapPreset, LdapSettings
from core.domain.identity.upstream.saml.assertions import NAME_ID
from core.domain.outbound import LONGEST_URL
from core.domain.saml import LONGEST_METADATA
from core.domain.secrets import Secret
from core.domain.tenancy.setup import DirectoryProduct, KnownSetupLink, SetupDraft, SetupPurpose, mapping_of, require_purpose
from core.domain.tenancy.upstream_providers import LONGEST_NAME, UpstreamProvider
from core.usecases.tenancy.setup.connection_drafts import client_id_of, has_typed_password, product_of
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, in_words, page
from entrypoints.http.pages.setup import (
    NO_ERRORS,
    PLACE,
    REFUSED,
    REFUSED_FORM,
    SETUP_VISITOR,
    AnySetupCall,
    Page,
    SetupPath,
    advice,
    errors_of,
    place,
    show,
)

_AT: Final = f"{PLACE}/connection"
CHECKED: Final = date(2026, 11, 23)
"""When the steps of the directories were compared with their makers' documentation."""
_LARGEST_FORM: Final = LONGEST_METADATA + (64 << 10)
_CHOICE_FIELDS: Final = {"name": "setup.connection.wrong.name", "directory": "setup.connection.wrong.directory"}
_SAML_FIELDS: Final = {
    "issuer": "setup.connection.wrong.issuer",
    "sso_url": "setup.connection.wrong.sso_url",
    "certificate": "setup.connection.wrong.certificate",
}
_ADDRESS_FIELDS: Final = {"email_sources": "setup.connection.wrong.email_sources"}
_DESCRIBED: Final = ("hosts", "ca_certificates", "bind_dn", "bind_password", "base_dn")
_CLIENT_FIELDS: Final = {
    "issuer": "setup.connection.wrong.oidc_issuer",
    "client_id": "setup.connection.wrong.client_id",
    "client_secret": "setup.connection.wrong.client_secret",
}


class DirectoryChoiceForm(BoundForm, frozen=True, kw_only=True):
    directory: Line = ""
    kind: ProviderKind = ProviderKind.SAML
    name: Line = ""


class GivenMetadataForm(BoundForm, frozen=True, kw_only=True):
    address: Line = ""
    text: Lines = ""
    file: bytes = b""


class DirectoryValuesForm(BoundForm, frozen=True, kw_only=True):
    issuer: Line = ""
    sso_url: Line = ""
    certificate: Lines = ""


class AddressAttributeForm(BoundForm, frozen=True, kw_only=True):
    email_sources: Lines = ""


class DirectoryClientForm(BoundForm, frozen=True, kw_only=True):
    issuer: Line = ""
    client_id: Line = ""
    client_secret: Secret = Secret("")


class DirectoryDescriptionForm(BoundForm, frozen=True, kw_only=True):
    product: LdapPreset = LdapPreset.ACTIVE_DIRECTORY
    hosts: Lines = ""
    """One on each line."""
    start_tls: Line = ""
    ca_certificates: Lines = ""
    bind_dn: Line = ""
    bind_password: Secret = Secret("")
    base_dn: Line = ""


@page.get(_AT, caller=SETUP_VISITOR, limit=PAGE_LOADS, policy=WITH_FORM, advice=advice, refuses=REFUSED)
async def show_setup_connection(call: Call[None, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Ask for the directory, or show the steps for the one that was chosen"""
    return await _page(call, postern)


@page.post(_AT, caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def choose_setup_directory(call: Call[DirectoryChoiceForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Choose a directory"""
    form = call.body
    try:
        await postern.tenancy.connection_drafts.choose(call.caller, call.actor, directory=form.directory, kind=form.kind, name=form.name)
    except (BadRequest, Conflict) as refusal:
        return await _page(call, postern, errors=errors_of(call, refusal, _CHOICE_FIELDS), form=form)
    return redirect(place(call.caller, "/connection"))


@page.post(
    f"{_AT}/metadata",
    caller=SETUP_VISITOR,
    limit=CREDENTIALS,
    policy=WITH_FORM,
    advice=advice,
    refuses=REFUSED_FORM,
    accepts=FormWithFile(_LARGEST_FORM),
)
async def send_directory_metadata(call: Call[GivenMetadataForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Give the directory's metadata: by address, as a file, or as text"""
    form, draft = call.body, await _draft(call, postern)
    address = form.address.strip()
    document = b"" if address else form.file or form.text.encode()
    try:
        await postern.tenancy.connection_drafts.fill(call.caller, draft.id, call.actor, document=document, address=address)
    except (BadRequest, Conflict) as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        field = "address" if address else "file" if form.file else "text"
        return await _page(call, postern, errors={field: said}, came=refusal.message, given=form)
    return redirect(place(call.caller, "/connection"))


@page.post(f"{_AT}/values", caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def send_directory_values(call: Call[DirectoryValuesForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Give the directory's single values in place of its metadata"""
    form, draft = call.body, await _draft(call, postern)
    try:
        await postern.tenancy.connection_drafts.fill_in(
            call.caller,
            draft.id,
            call.actor,
            issuer=form.issuer.strip(),
            sso_url=form.sso_url.strip(),
            certificate=form.certificate,
        )
    except (BadRequest, Conflict) as refusal:
        return await _page(call, postern, errors=errors_of(call, refusal, _SAML_FIELDS), came=refusal.message, values=form)
    return redirect(place(call.caller, "/connection"))


@page.post(f"{_AT}/address", caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def send_address_attribute(call: Call[AddressAttributeForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Name the attribute in which the directory sends the address"""
    form, draft = call.body, await _draft(call, postern)
    try:
        await postern.tenancy.connection_drafts.name_address(call.caller, draft.id, call.actor, form.email_sources.strip())
    except (BadRequest, Conflict) as refusal:
        return await _page(call, postern, errors=errors_of(call, refusal, _ADDRESS_FIELDS), attribute=form)
    return redirect(place(call.caller, "/connection"))


@page.post(f"{_AT}/client", caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def send_directory_client(call: Call[DirectoryClientForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Give issuer and client of a directory that speaks OpenID Connect"""
    form, draft = call.body, await _draft(call, postern)
    try:
        await postern.tenancy.connection_drafts.sign_up(
            call.caller,
            draft.id,
            call.actor,
            issuer=form.issuer.strip(),
            client=form.client_id.strip(),
            secret=form.client_secret.reveal(),
        )
    except (BadRequest, Conflict) as refusal:
        return await _page(call, postern, errors=errors_of(call, refusal, _CLIENT_FIELDS), came=refusal.message, client=form)
    return redirect(place(call.caller, "/connection"))


@page.post(f"{_AT}/description", caller=SETUP_VISITOR, limit=CREDENTIALS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def send_directory_description(call: Call[DirectoryDescriptionForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Describe a directory that speaks LDAP: its hosts, and the account that looks people up"""
    form, draft = call.body, await _draft(call, postern)
    change = LdapChange(
        hosts=tuple(one.strip() for one in form.hosts.splitlines() if one.strip()),
        start_tls=form.start_tls != "",
        ca_certificates=form.ca_certificates.strip(),
        bind_dn=form.bind_dn.strip(),
        base_dn=form.base_dn.strip(),
        ldap_preset=form.product,
    )
    try:
        await postern.tenancy.connection_drafts.describe(
            call.caller, draft.id, call.actor, change=change, password=form.bind_password.reveal()
        )
    except (BadRequest, Conflict) as refusal:
        said = in_words(refusal, shipped_pages().text(call.language))
        field = next((one for one in _DESCRIBED if refusal.message.startswith(f"{one}:")), "")
        return await _page(call, postern, errors={field: said}, description=form)
    return redirect(place(call.caller, "/connection"))


@page.post(f"{_AT}/test", caller=SETUP_VISITOR, limit=PAGE_STEPS, policy=WITH_FORM, advice=advice, refuses=REFUSED_FORM)
async def try_setup_connection(call: Call[BoundForm, None, SetupPath, KnownSetupLink], postern: Postern) -> Page:
    """Try the connection: sign in at the directory, and see every check"""
    draft = await _draft(call, postern)
    try:
        address = await postern.tenancy.connection_drafts.begin_test(call.caller, draft.id)
    except (BadRequest, Conflict) as refusal:
        return await _page(call, postern, errors={"": in_words(refusal, shipped_pages().text(call.language))})
    return redirect(address.removeprefix(postern.foundation.public_url))


async def _found(call: AnySetupCall, postern: Postern) -> SetupDraft | None:
    require_purpose(call.caller, SetupPurpose.CONNECTION)
    drafts = await postern.tenancy.setup_drafts.list(call.caller.link.id)
    return next((one for one in drafts if one.purpose is SetupPurpose.CONNECTION), None)


async def _draft(call: AnySetupCall, postern: Postern) -> SetupDraft:
    """Raises `NotFound`."""
    draft = await _found(call, postern)
    if draft is None:
        raise NotFound
    return draft


def _is_complete(draft: SetupDraft, connection: UpstreamProvider) -> bool:
    if connection.ldap is not None:
        return connection.ldap.is_complete and has_typed_password(draft, connection)
    return connection.saml is None or (connection.saml.is_complete and connection.issuer != "")


def _described(ldap: LdapSettings | None) -> DirectoryDescriptionForm:
    if ldap is None:
        return DirectoryDescriptionForm()
    return DirectoryDescriptionForm(
        product=ldap.ldap_preset or LdapPreset.ACTIVE_DIRECTORY,
        hosts="\n".join(ldap.hosts),
        start_tls="yes" if ldap.start_tls else "",
        ca_certificates=ldap.ca_certificates,
        bind_dn=ldap.bind_dn,
        base_dn=ldap.base_dn,
    )


def _first_source(saml: SamlSettings | None) -> str:
    named = "" if saml is None or not saml.email_sources else saml.email_sources[0]
    return "NameID" if named == NAME_ID else named


async def _page(
    call: AnySetupCall,
    postern: Postern,
    *,
    errors: Mapping[str, str] = NO_ERRORS,
    came: str = "",
    form: DirectoryChoiceForm | None = None,
    given: GivenMetadataForm | None = None,
    values: DirectoryValuesForm | None = None,
    attribute: AddressAttributeForm | None = None,
    client: DirectoryClientForm | None = None,
    description: DirectoryDescriptionForm | None = None,
) -> Page:
    status, draft = 400 if errors else 200, await _found(call, postern)
    if draft is None or form is not None:
        return show(
            call,
            postern,
            "directories.html",
            errors=errors,
            status=status,
            form=form or DirectoryChoiceForm(),
            directories=[one.value for one in DirectoryProduct],
            longest=LONGEST_NAME,
        )
    connection = await postern.tenancy.connection_drafts.connection(draft)
    saml = None if connection is None else connection.saml
    product = product_of(draft)
    ours = addresses(postern.foundation.public_url, client_id_of(draft.id) if draft.provider is None else draft.provider)
    return show(
        call,
        postern,
        "connection.html",
        errors=errors,
        status=status,
        came=came,
        draft=draft,
        product=product.value,
        is_saml=draft.settings["kind"] == ProviderKind.SAML.value,
        connection=connection,
        saml=saml,
        is_ldap=draft.settings["kind"] == ProviderKind.LDAP.value,
        products=[(one.value, usual.name) for one, usual in LDAP_PRESETS.items()],
        description=description or _described(None if connection is None else connection.ldap),
        is_complete=connection is not None and _is_complete(draft, connection),
        ours=ours,
        sources=mapping_of(product),
        attribute=attribute or AddressAttributeForm(email_sources=_first_source(saml)),
        callback=postern.identity.journeys.callback(str(client_id_of(draft.id))),
        given=given or GivenMetadataForm(address="" if saml is None else saml.metadata_url),
        values=values
        or DirectoryValuesForm(issuer="" if connection is None else connection.issuer, sso_url="" if saml is None else saml.sso_url),
        client=client
        or DirectoryClientForm(
            issuer="" if connection is None else connection.issuer, client_id="" if connection is None else connection.client_id
        ),
        longest=LONGEST_URL,
        longest_source=LONGEST_SOURCE,
        checked=CHECKED.isoformat(),
        here=place(call.caller, "/connection"),
    )
