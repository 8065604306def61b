"""The directories that people choose from when they set a connection up, and where each says who a person is."""

from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identity.upstream.connections import SamlChange
from core.domain.identity.upstream.saml.mappings import NAME_ID, PRESETS, AttributeMapping, DirectoryPreset

_BEGINNING: Final = 2000
_NAME_ID_FOR_PEOPLE: Final = "NameID"


class DirectoryProduct(StrEnum):
    """The directories with a preset, and any other."""

    ENTRA_ID = "entra_id"
    OKTA = "okta"
    GOOGLE = "google"
    AD_FS = "ad_fs"
    PING = "ping"
    SHIBBOLETH = "shibboleth"
    KEYCLOAK = "keycloak"
    OTHER = "other"


# Of a directory that we do not know: the names that most of them use.
_OTHER: Final = AttributeMapping(
    email=(
        "email",
        "mail",
        "urn:oid:0.9.2342.19200300.100.1.3",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
        NAME_ID,
    )
)


def mapping_of(product: DirectoryProduct) -> AttributeMapping:
    return _OTHER if product is DirectoryProduct.OTHER else PRESETS[DirectoryPreset(product.value)].mapping


def settings_of(product: DirectoryProduct) -> SamlChange:
    if product is DirectoryProduct.OTHER:
        return SamlChange(subject_source=_OTHER.subject, email_sources=tuple(_OTHER.email))
    return SamlChange(preset=DirectoryPreset(product.value))


def product_named(text: str) -> DirectoryProduct:
    """Raises `BadRequest`."""
    try:
        return DirectoryProduct(text)
    except ValueError:
        raise BadRequest("directory: choose one of the list", words="field_choice") from None


def source_named(text: str) -> str:
    """The source that somebody names for a connection, who reads "NameID" on our pages and in their directory."""
    return NAME_ID if text.casefold() == _NAME_ID_FOR_PEOPLE.casefold() else text


def words_for(document: bytes) -> str:
    """What somebody gave in place of a directory's metadata, for the words of the refusal."""
    beginning = document[:_BEGINNING].decode("utf-8", "replace").strip().lower()
    if not beginning:
        return "setup_metadata_missing"
    if "<!doctype html" in beginning or "<html" in beginning:
        return "setup_metadata_is_page"
    if beginning.startswith(("-----begin", "mii")):
        return "setup_metadata_is_certificate"
    if b"SPSSODescriptor" in document and b"IDPSSODescriptor" not in document:
        return "setup_metadata_of_application"
    if b"IDPSSODescriptor" in document:
        return "setup_metadata_lacks"
    return "setup_metadata_unreadable"
