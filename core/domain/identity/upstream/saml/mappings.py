"""Where a directory says who a person is: the mapping of a connection, and the presets for directories that many organizations have."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from core.domain.saml.messages import NameIdFormat
from core.frozen import Frozen, replace

NAME_ID: Final = "name_id"
"""A source that is the subject's NameID, and no attribute."""


class AttributeMapping(Frozen, kw_only=True):
    """Each source is `NAME_ID` or the exact name of an attribute. Several are tried in order, and the first one that the directory sent
    counts; the subject has exactly one source, since a person must not get another subject when the directory sends more or less.
    """

    subject: str = NAME_ID
    email: Sequence[str] = ()
    given_name: Sequence[str] = ()
    family_name: Sequence[str] = ()
    name: Sequence[str] = ()
    groups: Sequence[str] = ()
    fields: Mapping[str, str] = {}
    """The keys of the organization's fields, by the attributes that go into them."""


class DirectoryPreset(StrEnum):
    """Directories for which a mapping is known. Any other is set up by hand."""

    ENTRA_ID = "entra_id"
    OKTA = "okta"
    GOOGLE = "google"
    AD_FS = "ad_fs"
    PING = "ping"
    SHIBBOLETH = "shibboleth"
    KEYCLOAK = "keycloak"


class Preset(Frozen, kw_only=True):
    """The sources of each are in docs/guides/directories/saml-directories.md."""

    name: str
    """The product's name for people."""
    mapping: AttributeMapping
    name_id_format: str | None = None
    """The format to ask for. None where the directory's own setting decides."""
    encrypts_weakly: bool = False
    """The product encrypts with CBC as soon as our metadata publish a key for encryption, whatever methods they name."""


_SOAP: Final = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims"
_ENTRA: Final = "http://schemas.microsoft.com/identity/claims"
_WINDOWS: Final = "http://schemas.microsoft.com/ws/2008/06/identity/claims"
# Directories that leave the names to whoever sets them up. The set-up tells these.
_OURS: Final = AttributeMapping(
    email=("email",), given_name=("firstName",), family_name=("lastName",), name=("displayName",), groups=("groups",)
)

PRESETS: Final[Mapping[DirectoryPreset, Preset]] = {
    DirectoryPreset.ENTRA_ID: Preset(
        name="Microsoft Entra ID",
        mapping=AttributeMapping(
            # The NameID is the user principal name at first, which changes with a marriage.
            subject=f"{_ENTRA}/objectidentifier",
            email=(f"{_SOAP}/emailaddress",),
            given_name=(f"{_SOAP}/givenname",),
            family_name=(f"{_SOAP}/surname",),
            name=(f"{_ENTRA}/displayname",),
            groups=(f"{_WINDOWS}/groups",),
        ),
    ),
    DirectoryPreset.OKTA: Preset(name="Okta", mapping=_OURS),
    # It has no name that never changes, unless the organization keeps one in a custom attribute: its NameID is the address.
    DirectoryPreset.GOOGLE: Preset(name="Google Workspace", mapping=replace(_OURS, email=("email", NAME_ID), name=())),
    DirectoryPreset.AD_FS: Preset(
        name="AD FS",
        mapping=AttributeMapping(
            subject=f"{_WINDOWS}/primarysid",
            email=(f"{_SOAP}/emailaddress",),
            given_name=(f"{_SOAP}/givenname",),
            family_name=(f"{_SOAP}/surname",),
            name=(f"{_SOAP}/name",),
            groups=("http://schemas.xmlsoap.org/claims/Group",),
        ),
        encrypts_weakly=True,
    ),
    DirectoryPreset.PING: Preset(name="PingOne", mapping=_OURS),
    DirectoryPreset.SHIBBOLETH: Preset(
        name="Shibboleth",
        mapping=AttributeMapping(
            email=("urn:oid:0.9.2342.19200300.100.1.3",),
            given_name=("urn:oid:2.5.4.42",),
            family_name=("urn:oid:2.5.4.4",),
            name=("urn:oid:2.16.840.1.113730.3.1.241",),
            groups=("urn:oid:1.3.6.1.4.1.5923.1.5.1.1",),
        ),
        name_id_format=NameIdFormat.PERSISTENT.value,
    ),
    DirectoryPreset.KEYCLOAK: Preset(
        name="Keycloak",
        mapping=AttributeMapping(
            email=("urn:oid:1.2.840.113549.1.9.1",),
            given_name=("urn:oid:2.5.4.42",),
            family_name=("urn:oid:2.5.4.4",),
            groups=("member",),
        ),
        name_id_format=NameIdFormat.PERSISTENT.value,
    ),
}
