"""What is fit to arrive with an organization from another installation. The endpoints check what people send; nobody has checked a file.

The rules are the endpoints' own. `arriving_columns.py` has those of one column each. Here are the rules of several columns together.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from types import NoneType
from typing import Any, Final, Protocol
from uuid import UUID

from adapters.postgres.moving.arriving_columns import COLUMNS, OtherCheck, certificate
from core.domain.branding import brand_color, look_of
from core.domain.claims import ClaimPlace, ClaimSource, ServiceClaim
from core.domain.errors import BadRequest, Refusal
from core.domain.federation.oauth.client_documents import document_address
from core.domain.federation.open_registrations import has_open_form
from core.domain.federation.provisioning.connections import (
    MappedAttribute,
    ProvisioningDraft,
    ProvisioningPreset,
    ProvisioningSource,
    checked_draft,
)
from core.domain.federation.saml.configurations import MOST_CERTIFICATES, MOST_ENDPOINTS, AcsEndpoint, Configuration
from core.domain.federation.saml.configurations import checked as checked_saml
from core.domain.identifiers import ClientId, OrganizationId, ProfileFieldId, ResourceServerId, ServiceId
from core.domain.identity.upstream.connections import ProviderKind, SamlSettings, usable_settings
from core.domain.identity.upstream.ldap.filters import require_no_credential
from core.domain.identity.upstream.ldap.settings import LdapSettings, ldap_issuer, usable_ldap
from core.domain.images import image_of
from core.domain.languages import DEFAULT, Language
from core.domain.lines import has_markup
from core.domain.mail import Email
from core.domain.outbound import LONGEST_HOST, NotADestination, client_keys, destination, keys_destination
from core.domain.saml import entity_id
from core.domain.services.clients import is_open, kept_client_id, placed, shown, web_page
from core.domain.services.resource_identifiers import resource_identifier
from core.domain.services.resource_servers import ResourceScope, ResourceServer
from core.domain.services.resource_servers import checked as checked_server
from core.domain.services.service_claims import checked_claim
from core.domain.services.services import (
    LONGEST_NAME,
    AssertionAudience,
    SecurityProfile,
    ServiceSettings,
    ServiceType,
    checked_settings,
)
from core.domain.services.user_keys import UserKeySettings
from core.domain.services.user_keys import checked as checked_key_settings
from core.domain.tenancy.branding import LARGEST_LOGO, MOST_LOGO_PIXELS, LookPicture, PictureBounds, look_picture
from core.domain.tenancy.profile_fields import FieldKind, FieldPrompt, FieldRule, FieldWriter, ProfileField, checked_field
from core.domain.tenancy.sign_in_rules import SignInRulesChange
from core.domain.tenancy.texts import NoticeTimes, spoken_languages
from core.domain.tenancy.trusted_issuers import TrustedIssuerSettings
from core.domain.tenancy.trusted_issuers import made as trusted_issuer
from core.domain.texts.own_texts import FOOTER, OPEN_TEXTS
from core.domain.texts.rules import LONGEST, OwnText, TextRules, checked_texts, links
from core.frozen import Frozen, names_of, replace
from ports.texts import ShippedWords

Values = Mapping[str, Any]
_NIL: Final = UUID(int=0)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class AddressSyntax(Protocol):
    def parse(self, text: str) -> Email:
        """Raises `BadRequest`."""


class Receiver(Frozen):
    """The installation where the rows arrive."""

    issuer: str
    syntax: AddressSyntax
    shipped: ShippedWords


def require_fit(table: str, row: Values, receiver: Receiver) -> None:
    """Raises `BadRequest`, whose message begins with the column. The values have the types of their columns."""
    for column, rule in COLUMNS[table].items():
        value = row[column]
        if value is not None and not isinstance(rule, OtherCheck):
            _require(column, rule, value)
    if (check := _ROWS.get(table)) is not None:
        _require("", lambda values: check(values, receiver), row)


def _require(column: str, rule: Callable[[Any], object], value: Any) -> None:
    try:
        rule(value)
    except Refusal as refusal:
        raise BadRequest(_beginning(column, refusal.message)) from None
    except NotADestination as refusal:
        raise BadRequest(_beginning(column, f"an address {refusal}")) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise BadRequest(_beginning(column, "a value is of the wrong type, or not one of those that there are")) from None


def _beginning(column: str, message: str) -> str:
    return message if not column or re.match(rf"{column}\b", message) else f"{column}: {message}"


def _organization(row: Values, receiver: Receiver) -> None:
    if row["primary_color"] is not None and brand_color(row["primary_color"]) is None:
        raise BadRequest("primary_color: must be a colour like #0f5f5c")
    if row["look"] is not None:
        _require("look", _require_look, row["look"])
    _require_addresses(row, "help_url", "privacy_url", "terms_url")
    if row["languages"] is not None:
        spoken_languages(str(row["languages"]).split(","))
    names = (
        *("mfa_grace_days", "device_trust_days", "session_hours", "session_idle_minutes", "most_sessions"),
        *("invitation_domains", "shortest_password", "registration_domains"),
    )
    SignInRulesChange(**{name: row[name] for name in names}).require_allowed()
    for field in ("invitation_domains", "registration_domains"):
        for domain in row[field]:
            if _address(receiver, f"somebody@{domain}", field).domain != domain:
                raise BadRequest(f"{field}: must be in the form in which addresses compare")


# What the rules of the whole row compare has to be what it is elsewhere.
_SETTING_WORDS: Final[Mapping[str, Callable[[Any], Any]]] = {"profile": SecurityProfile, "assertion_audience": AssertionAudience}


def _require_look(kept: str) -> None:
    look = look_of(kept)
    begins, ends = NoticeTimes.of(look).checked().stored()
    if replace(look, notice_from=begins, notice_until=ends).as_text() != kept:
        raise BadRequest("has something that looks do not have, or not in the form that they are kept in")


def _service(row: Values, _receiver: Receiver) -> None:
    settings = ServiceSettings(
        **{name: row[name] for name in names_of(ServiceSettings) if name in row and name not in {"service_type", *_SETTING_WORDS}},
        **{name: read(row[name]) for name, read in _SETTING_WORDS.items() if row.get(name) is not None},
        service_type=ServiceType(row["service_type"]),
    )
    if settings.service_type is ServiceType.METADATA and row["logo_digest"] is not None:
        raise BadRequest("logo_digest: nobody has registered this application, so it has no logo")
    _require("kept_client_id", partial(_require_client_id, row), row["kept_client_id"])
    if settings.jwks_uri is not None:
        keys_destination(settings.jwks_uri)
    if settings.service_type is ServiceType.METADATA:
        # Its document says how it proves itself. One without a name has that of its host, which may be longer than others.
        if settings.jwks is not None:
            client_keys(settings.jwks)
        settings = replace(settings, jwks=None, name=settings.name[:LONGEST_NAME] if len(settings.name) <= LONGEST_HOST else settings.name)
    if checked_settings(settings).name != settings.name:
        raise BadRequest("name: must be as it is kept")


def _require_client_id(row: Values, kept: str | None) -> None:
    if row["service_type"] != ServiceType.METADATA:
        if kept is not None:
            kept_client_id(kept)
    elif kept is None or placed(_described_client(shown(ClientId(kept))), row["org_id"]) != kept:
        raise BadRequest("must be the address of a document or the id of an open client, and the organization's id")


def _described_client(client: ClientId) -> str:
    """An open client's id is of no use here, since another installation has signed it. Its service tells people what they had allowed."""
    return client if is_open(client) and has_open_form(client) else document_address(client)


def _claim(row: Values, _receiver: Receiver) -> None:
    places = tuple(ClaimPlace(place) for place in row["told_in"])
    checked_claim(ServiceClaim(row["name"], ClaimSource(row["source"]), row["argument"], places))


def _provisioning_connection(row: Values, _receiver: Receiver) -> None:
    mapping = tuple(MappedAttribute(one["attribute"], ProvisioningSource(one["source"]), one.get("argument")) for one in row["mapping"])
    if any(one.keys() - {"attribute", "source", "argument"} for one in row["mapping"]):
        raise BadRequest("mapping: has something that mappings do not have")
    draft = ProvisioningDraft(
        preset=ProvisioningPreset(row["preset"]),
        base_url=row["base_url"],
        token=None,
        mapping=mapping,
        attributes_left_out=tuple(row["attributes_left_out"]),
    )
    if checked_draft(draft, None).base_url != draft.base_url:
        raise BadRequest("base_url: must be in the form in which it is kept")


def _resource_server(row: Values, _receiver: Receiver) -> None:
    if resource_identifier(row["identifier"]).host != row["domain"]:
        raise BadRequest("domain: is not the identifier's host")
    for scope in row["scopes"]:
        if type(scope.get("acr_values", [])) is not list or type(scope.get("max_age", 0)) not in {int, NoneType}:
            raise BadRequest("scopes: acr_values are a list, and max_age is a whole number or null")
    server = ResourceServer(
        id=ResourceServerId(_NIL),
        organization=OrganizationId(_NIL),
        identifier=row["identifier"],
        host=row["domain"],
        name=row["name"],
        # The service that stands for the API may be gone. Nobody holds its permissions then.
        service_slug="",
        token_lifetime=row["token_lifetime"],
        metadata_hosts=row["metadata_hosts"],
        scopes=[ResourceScope(**scope) for scope in row["scopes"]],
        token="",
        created_at=_LONG_AGO,
        updated_at=_LONG_AGO,
    )
    if checked_server(server).name != row["name"]:
        raise BadRequest("name: must be as it is kept")


def _saml(row: Values, _receiver: Receiver) -> None:
    for name in ("slo_url", "slo_response_url"):
        if row[name] is not None:
            web_page(row[name], name)
    if len(row["acs_endpoints"]) > MOST_ENDPOINTS or len(row["signing_certificates"]) > MOST_CERTIFICATES:
        raise BadRequest("acs_endpoints, signing_certificates: too many")
    for endpoint in row["acs_endpoints"]:
        web_page(AcsEndpoint(**endpoint).url, "acs_endpoints")
        if type(endpoint["index"]) is not int or type(endpoint["is_default"]) not in {bool, NoneType}:
            raise BadRequest("acs_endpoints: index is a whole number, and is_default says yes or no")
    for name, pems in (("signing_certificates", row["signing_certificates"]), ("encryption_certificate", [row["encryption_certificate"]])):
        for pem in pems:
            if pem is not None:
                _require(name, certificate, pem)
    checked_saml(
        Configuration(
            service=ServiceId(_NIL),
            created_at=_LONG_AGO,
            updated_at=_LONG_AGO,
            **{name: row[name] for name in ("enabled", "entity_id", "acs_url", "name_id_format", "attribute_mapping")},
        )
    )


def _picture(row: Values, _receiver: Receiver) -> None:
    content = bytes.fromhex(row["content"].removeprefix("\\x"))
    image = image_of(content)
    kind = row.get("media_type", row.get("type"))
    if image is None or image.media_type != kind or not image.fits(MOST_LOGO_PIXELS) or len(content) > LARGEST_LOGO:
        raise BadRequest("content: is no picture of the type that it says")
    # Pages ask for a logo by its digest, whoever's it is.
    if "digest" in row and row["digest"] != sha256(content).hexdigest():
        raise BadRequest("digest: is that of another picture")


def _look_picture(row: Values, receiver: Receiver) -> None:
    _picture(row, receiver)
    content = bytes.fromhex(row["content"].removeprefix("\\x"))
    _require("content", partial(_require_bare, bounds=LookPicture(row["kind"]).bounds), content)


def _require_bare(content: bytes, bounds: PictureBounds) -> None:
    """Uploads keep what is drawn, and nothing else. So what arrives has nothing else."""
    if look_picture(content, bounds).content != content:
        raise BadRequest("has something that is not drawn")


def _service_logo(row: Values, receiver: Receiver) -> None:
    _look_picture({**row, "kind": LookPicture.LOGO}, receiver)


def _upstream_provider(row: Values, _receiver: Receiver) -> None:
    settings: SamlSettings | None = row["saml"]
    described: LdapSettings | None = row["ldap"]
    kind = ProviderKind(row["kind"])
    if (kind is ProviderKind.SAML) != (settings is not None):
        raise BadRequest("saml: a provider of SAML has settings, and no other")
    if (kind is ProviderKind.LDAP) != (described is not None):
        raise BadRequest("ldap: a provider of LDAP has settings, and no other")
    if described is not None:
        try:
            usable = usable_ldap(described)
        except BadRequest as refusal:
            raise BadRequest(f"ldap: {refusal.message}") from None
        if usable != described or row["issuer"] != ldap_issuer(row["id"]):
            raise BadRequest("ldap: these settings are not as they are stored")
        require_no_credential("profile_mapping", row["profile_mapping"])
        return
    if settings is None:
        _require_addresses(row, "issuer")
        return
    # A directory's issuer is a name, and empty while nobody has given it.
    if row["issuer"]:
        entity_id(row["issuer"])
    usable_settings(settings)
    for one in (*settings.certificates, *settings.waiting):
        _require("saml", certificate, one.pem)


def _user_key_settings(row: Values, _receiver: Receiver) -> None:
    checked_key_settings(
        UserKeySettings(enabled=row["enabled"], prefix=row["prefix"], most_keys=row["most_keys"], longest_days=row["longest_days"])
    )


def _invitation(row: Values, receiver: Receiver) -> None:
    if _address(receiver, row["email"], "email").key != row["email_key"]:
        raise BadRequest("email_key: is of another address")


def _mail_server(row: Values, receiver: Receiver) -> None:
    if not _address(receiver, row["from_email"], "from_email").address.isascii():
        raise BadRequest("from_email: must be in ASCII")


def _own_text(row: Values, receiver: Receiver) -> None:
    """A text of a key or language that is not here is kept, and shown nowhere; it meets the rules of a footer. Whether a link's domain is
    proved here is asked later.
    """
    if not _TEXT_KEY.fullmatch(row["key"]) or not _TEXT_LANGUAGE.fullmatch(row["language"]):
        raise BadRequest("key, language: must be a name of a text, and a code of a language")
    ours_then = row["based_on"]
    if len(ours_then) > LONGEST or has_markup(ours_then) or not all(one.isprintable() or one in _FIXED_SPACES for one in ours_then):
        raise BadRequest("based_on: must be a text of ours")
    language = Language.of(row["language"])
    key = row["key"] if language is not None and row["key"] in OPEN_TEXTS else FOOTER
    language = language or DEFAULT
    ours = {one: receiver.shipped.written(one) for one in (language, DEFAULT)}
    former = {one: receiver.shipped.former(one) for one in ours}
    rules = TextRules(ours, ours[DEFAULT], [destination(link.address).host for link in links(row["text"])], former=former)
    (kept,) = checked_texts([OwnText(key, language, row["text"])], rules)
    if kept.text != row["text"]:
        raise BadRequest("text: must be as it is kept")


_TEXT_KEY: Final = re.compile(r"[a-z0-9_.]{1,80}")
_TEXT_LANGUAGE: Final = re.compile(r"[a-z]{2,3}")
# French has them before its marks.
_FIXED_SPACES: Final = "\u00a0\u202f"


def _profile_field(row: Values, _receiver: Receiver) -> None:
    rule: FieldRule = row["rule"]
    field = ProfileField(
        id=ProfileFieldId(_NIL),
        organization=OrganizationId(_NIL),
        kind=FieldKind(row["kind"]),
        rule=rule,
        written_by=frozenset(map(FieldWriter, row["written_by"])),
        asked_at=None if row["asked_at"] is None else FieldPrompt(row["asked_at"]),
        created_at=_LONG_AGO,
        updated_at=_LONG_AGO,
        **{name: row[name] for name in ("key", "label", "scope", "required", "position")},
    )
    if checked_field(field) != field:
        raise BadRequest("label, rule: must be as they are kept")


def _trusted_issuer(row: Values, receiver: Receiver) -> None:
    settings = TrustedIssuerSettings(**{name: row[name] for name in COLUMNS["trusted_issuers"]})
    made = trusted_issuer(_NIL, OrganizationId(_NIL), settings, own_issuer=receiver.issuer, now=_LONG_AGO)
    if made.name != row["name"]:
        raise BadRequest("name: must be as it is kept")


def _require_addresses(row: Values, *columns: str) -> None:
    for column in columns:
        if row[column] is not None:
            _require(column, destination, row[column])


def _address(receiver: Receiver, text: str, column: str) -> Email:
    try:
        return receiver.syntax.parse(text)
    except BadRequest:
        raise BadRequest(f"{column}: is no e-mail address") from None


_ROWS: Final[Mapping[str, Callable[[Values, Receiver], None]]] = {
    "all_organizations": _organization,
    "all_services": _service,
    "resource_servers": _resource_server,
    "service_claims": _claim,
    "provisioning_connections": _provisioning_connection,
    "saml_configurations": _saml,
    "logos": _picture,
    "look_pictures": _look_picture,
    "service_logos": _service_logo,
    "pictures": _picture,
    "upstream_providers": _upstream_provider,
    "invitations": _invitation,
    "mail_servers": _mail_server,
    "organization_texts": _own_text,
    "all_profile_fields": _profile_field,
    "user_key_settings": _user_key_settings,
    "trusted_issuers": _trusted_issuer,
}
