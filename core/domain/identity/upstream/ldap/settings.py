"""The settings of a directory that speaks LDAP, as its organization describes it."""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.ldap.filters import LdapFilter, is_attribute, named, person_filter, read_filter, require_no_credential
from core.frozen import Frozen, names_of, replace

MOST_HOSTS: Final = 3
LONGEST_HOST: Final = 260
LONGEST_DN: Final = 1000
LONGEST_BIND_PASSWORD: Final = 500
LONGEST_AUTHORITIES: Final = 32 << 10
MOST_AUTHORITIES: Final = 10
MOST_SIGN_IN_ATTRIBUTES: Final = 5
MOST_LOCKOUT_THRESHOLD: Final = 1000
MOST_LOCKOUT_MINUTES: Final = 24 * 60
LONGEST_WINDOW_SECONDS: Final = MOST_LOCKOUT_MINUTES * 60
FIRST_LOCKOUT_THRESHOLD: Final = 5
FIRST_LOCKOUT_MINUTES: Final = 30
_LEAST_HARMLESS_THRESHOLD: Final = 3
FIRST_STEP_MINUTES: Final = 15
LEAST_STEP_MINUTES: Final = 5
MOST_STEP_MINUTES: Final = 24 * 60
_TLS_PORT: Final = 636
_PLAIN_PORT: Final = 389
_HOST: Final = re.compile(r"(ldaps?)://(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?)(?::([0-9]{1,5}))?/?", re.IGNORECASE)
_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# An attribute type, then a value, as often as there are commas that no backslash precedes (RFC 4514). The directory reads it anyway.
_DN_PART: Final = re.compile(r"\s*[A-Za-z0-9][A-Za-z0-9.-]*\s*=\s*(?:[^\\,]|\\.)+")
_DN_PARTS: Final = re.compile(r"(?:[^\\,]|\\.)+", re.DOTALL)


class LdapScope(StrEnum):
    """The search scope below the base DN."""

    SUBTREE = "subtree"
    ONE_LEVEL = "one_level"


class LdapIdentity(StrEnum):
    """The attributes that can identify a person permanently. Names and email addresses are excluded because they can be reassigned."""

    OBJECT_GUID = "objectGUID"
    ENTRY_UUID = "entryUUID"
    NS_UNIQUE_ID = "nsUniqueId"
    IPA_UNIQUE_ID = "ipaUniqueID"


class LdapPreset(StrEnum):
    """The products with known default filters and attributes."""

    ACTIVE_DIRECTORY = "active_directory"
    SAMBA = "samba"
    OPENLDAP = "openldap"
    DIRECTORY_389 = "389"
    FREEIPA = "freeipa"
    LLDAP = "lldap"


class LdapUsual(Frozen, kw_only=True):
    """What a product has unless somebody changed it. The sources are in docs/guides/directories/ldap.md."""

    name: str
    """The product's name for people."""
    person_filter: str
    sign_in_attributes: tuple[str, ...]
    identity_attribute: LdapIdentity
    lockout_threshold: int = FIRST_LOCKOUT_THRESHOLD
    """At which it locks people. A test cannot read every product's."""


_AD_PEOPLE: Final = "(&(objectCategory=person)(objectClass=user))"
_AD_NAMES: Final = ("sAMAccountName", "userPrincipalName", "mail")

LDAP_PRESETS: Final[Mapping[LdapPreset, LdapUsual]] = {
    LdapPreset.ACTIVE_DIRECTORY: LdapUsual(
        name="Active Directory",
        person_filter=_AD_PEOPLE,
        sign_in_attributes=_AD_NAMES,
        identity_attribute=LdapIdentity.OBJECT_GUID,
    ),
    LdapPreset.SAMBA: LdapUsual(
        name="Samba", person_filter=_AD_PEOPLE, sign_in_attributes=_AD_NAMES, identity_attribute=LdapIdentity.OBJECT_GUID
    ),
    LdapPreset.OPENLDAP: LdapUsual(
        name="OpenLDAP",
        person_filter="(objectClass=inetOrgPerson)",
        sign_in_attributes=("uid", "mail"),
        identity_attribute=LdapIdentity.ENTRY_UUID,
    ),
    LdapPreset.DIRECTORY_389: LdapUsual(
        name="389 Directory Server",
        person_filter="(objectClass=inetOrgPerson)",
        sign_in_attributes=("uid", "mail"),
        identity_attribute=LdapIdentity.NS_UNIQUE_ID,
        lockout_threshold=3,
    ),
    LdapPreset.FREEIPA: LdapUsual(
        name="FreeIPA",
        person_filter="(&(objectClass=person)(objectClass=posixAccount))",
        sign_in_attributes=("uid", "mail"),
        identity_attribute=LdapIdentity.IPA_UNIQUE_ID,
    ),
    LdapPreset.LLDAP: LdapUsual(
        name="lldap",
        person_filter="(objectClass=person)",
        sign_in_attributes=("uid", "mail"),
        identity_attribute=LdapIdentity.ENTRY_UUID,
    ),
}


class LdapHost(Frozen):
    name: str
    port: int


class LdapSettings(Frozen, kw_only=True):
    hosts: tuple[str, ...] = ()
    """Each as `ldaps://host:port`, or `ldap://host:port` with StartTLS. They are tried in this order."""
    start_tls: bool = False
    ca_certificates: str = ""
    """The authorities that vouch for the hosts, in PEM, in place of the system's. Empty for the system's."""
    bind_dn: str = ""
    """The DN of the account that searches the directory."""
    base_dn: str = ""
    """Empty for the directory's `defaultNamingContext`, or its only naming context."""
    search_scope: LdapScope = LdapScope.SUBTREE
    person_filter: str = "(objectClass=person)"
    sign_in_attributes: tuple[str, ...] = ("uid", "mail")
    """Those that a person may type at the sign-in."""
    identity_attribute: LdapIdentity = LdapIdentity.ENTRY_UUID
    address_attribute: str = "mail"
    groups_attribute: str = "memberOf"
    """Empty when groups do not matter."""
    lockout_threshold: int = FIRST_LOCKOUT_THRESHOLD
    """After how many wrong passwords the directory locks somebody, as an administrator has typed it."""
    lockout_minutes: int = FIRST_LOCKOUT_MINUTES
    accepts_lockouts: bool = False
    """Somebody has said yes to a threshold at which a stranger can lock people."""
    ldap_preset: LdapPreset | None = None
    read_threshold: int | None = None
    """The threshold that the last successful test has read in the directory."""
    read_seconds: int | None = None
    """The window that it has read."""
    keeps_in_step: bool = False
    """Whether people and groups come and go with the directory. The first run is a plan, which an owner lets go on."""
    step_minutes: int = FIRST_STEP_MINUTES
    """How often the directory is read then."""

    @property
    def places(self) -> tuple[LdapHost, ...]:
        return tuple(_host(one, self.start_tls) for one in self.hosts)

    @property
    def is_complete(self) -> bool:
        return self.hosts != () and self.bind_dn != "" and self.sign_in_attributes != ()

    @property
    def binding(self) -> str:
        """The digest of what the bind password belongs to: it goes nowhere else."""
        return sha256(json.dumps([self.hosts, self.start_tls, self.ca_certificates, self.bind_dn]).encode()).hexdigest()

    @property
    def threshold(self) -> int:
        """The smaller one counts. A directory that never locks anybody has read 0."""
        return min(self.lockout_threshold, self.read_threshold) if self.read_threshold else self.lockout_threshold

    @property
    def window_seconds(self) -> int:
        """The longer one counts, up to a day. A directory without a window forgets nothing by itself: a day, too."""
        if self.read_threshold and not self.read_seconds:
            return LONGEST_WINDOW_SECONDS
        return min(max(self.lockout_minutes * 60, self.read_seconds or 0), LONGEST_WINDOW_SECONDS)

    @property
    def most_failures(self) -> int:
        """How many wrong passwords of one person the directory gets from us within its window. People mistype elsewhere, too."""
        return max(self.threshold - 2, 1)

    def looks_for(self, name: str) -> LdapFilter:
        return named(read_filter(self.person_filter), self.sign_in_attributes, name)


NOTHING_DESCRIBED: Final = LdapSettings()


class LdapChange(Frozen, kw_only=True):
    """A change of the settings. Fields that are None keep their values."""

    hosts: tuple[str, ...] | None = None
    start_tls: bool | None = None
    ca_certificates: str | None = None
    bind_dn: str | None = None
    base_dn: str | None = None
    search_scope: LdapScope | None = None
    person_filter: str | None = None
    sign_in_attributes: tuple[str, ...] | None = None
    identity_attribute: LdapIdentity | None = None
    address_attribute: str | None = None
    groups_attribute: str | None = None
    lockout_threshold: int | None = None
    lockout_minutes: int | None = None
    accepts_lockouts: bool | None = None
    keeps_in_step: bool | None = None
    step_minutes: int | None = None
    ldap_preset: LdapPreset | None = None
    """It gives filter, attributes and threshold that the change does not name."""

    @property
    def is_empty(self) -> bool:
        return self == NO_LDAP_CHANGE

    def applied(self, before: LdapSettings) -> LdapSettings:
        """Raises `BadRequest`."""
        given: dict[str, Any] = {name: value for name in names_of(self) if (value := getattr(self, name)) is not None}
        if self.ldap_preset is not None:
            usual = LDAP_PRESETS[self.ldap_preset]
            given = {
                "person_filter": usual.person_filter,
                "sign_in_attributes": usual.sign_in_attributes,
                "identity_attribute": usual.identity_attribute,
                # Nobody's smaller number goes.
                "lockout_threshold": min(usual.lockout_threshold, before.lockout_threshold),
                **given,
            }
        after = usable_ldap(replace(before, **given))
        if after.binding != before.binding:
            # What was read in another directory says nothing about this one.
            after = replace(after, read_threshold=None, read_seconds=None)
        return after


NO_LDAP_CHANGE: Final = LdapChange()
# What a test finds out, and what no test is about.
_UNTESTED: Final = frozenset({"read_threshold", "read_seconds", "ldap_preset", "keeps_in_step", "step_minutes"})


def examined_settings(settings: LdapSettings) -> Mapping[str, Json]:
    """The settings that a test is about."""
    return {name: _plain(getattr(settings, name)) for name in names_of(settings) if name not in _UNTESTED}


def _plain(value: object) -> Json:
    if isinstance(value, tuple):
        return [str(one) for one in value]
    return value if isinstance(value, bool | int) else str(value)


def ldap_issuer(provider: UpstreamProviderId | str) -> str:
    """The issuer of identities at a directory: the connection itself, since nothing else names the directory for good."""
    return f"urn:uuid:{provider}"


def bind_password_context(provider: UpstreamProviderId | str) -> str:
    """The place that the bind password is sealed for."""
    return f"upstream_providers.sealed_bind_password:{provider}"


def bound_password(settings: LdapSettings, password: str) -> bytes:
    """The password with what it belongs to, as it is sealed. Raises `BadRequest`."""
    if not 0 < len(password) <= LONGEST_BIND_PASSWORD or "\0" in password:
        raise BadRequest(
            f"bind_password: 1 to {LONGEST_BIND_PASSWORD} characters",
            words="field_length",
            values={"least": 1, "most": LONGEST_BIND_PASSWORD},
        )
    return json.dumps({"binding": settings.binding, "password": password}).encode()


def opened_password(settings: LdapSettings, opened: bytes) -> str:
    """Empty when the password was typed for other hosts, another certificate, or another account."""
    kept = json.loads(opened)
    return str(kept["password"]) if kept["binding"] == settings.binding else ""


def usable_ldap(settings: LdapSettings) -> LdapSettings:
    """The settings, if each of them can be used. Raises `BadRequest`."""
    if len(settings.hosts) > MOST_HOSTS:
        raise BadRequest(f"hosts: at most {MOST_HOSTS}", words="field_list", values={"most": MOST_HOSTS})
    hosts = tuple(dict.fromkeys(host_in(one, start_tls=settings.start_tls) for one in settings.hosts))
    for field in ("bind_dn", "base_dn"):
        _require_dn(field, getattr(settings, field))
    _require_attributes("sign_in_attributes", settings.sign_in_attributes)
    if not settings.sign_in_attributes or len(settings.sign_in_attributes) > MOST_SIGN_IN_ATTRIBUTES:
        raise BadRequest(
            f"sign_in_attributes: 1 to {MOST_SIGN_IN_ATTRIBUTES}", words="field_list", values={"most": MOST_SIGN_IN_ATTRIBUTES}
        )
    _require_attributes("address_attribute", (settings.address_attribute,))
    _require_attributes("groups_attribute", (settings.groups_attribute,) if settings.groups_attribute else ())
    _require_within("lockout_threshold", settings.lockout_threshold, MOST_LOCKOUT_THRESHOLD)
    _require_within("lockout_minutes", settings.lockout_minutes, MOST_LOCKOUT_MINUTES)
    if not LEAST_STEP_MINUTES <= settings.step_minutes <= MOST_STEP_MINUTES:
        raise BadRequest(
            f"step_minutes: {LEAST_STEP_MINUTES} to {MOST_STEP_MINUTES}",
            words="field_bounds",
            values={"least": LEAST_STEP_MINUTES, "most": MOST_STEP_MINUTES},
        )
    if can_lock_anybody(settings.lockout_threshold) and not settings.accepts_lockouts:
        raise BadRequest(
            "accepts_lockouts: at this threshold a stranger can lock people out of your directory: accept this with accepts_lockouts",
            words="ldap_lockouts",
        )
    read = None if settings.read_seconds is None else min(max(settings.read_seconds, 0), LONGEST_WINDOW_SECONDS)
    return replace(settings, hosts=hosts, person_filter=person_filter(settings.person_filter), read_seconds=read)


def authorities_in(text: str) -> Sequence[str]:
    """Each certificate in a text. Raises `BadRequest`."""
    blocks = _CERTIFICATE.findall(text)
    if not 0 < len(blocks) <= MOST_AUTHORITIES or _CERTIFICATE.sub("", text).strip():
        raise BadRequest(f"ca_certificates: 1 to {MOST_AUTHORITIES} certificates in PEM", words="ldap_authority")
    return blocks


def can_lock_anybody(threshold: int) -> bool:
    """Whether one wrong password that a stranger sends, beside one of the person's, locks the person."""
    return 0 < threshold < _LEAST_HARMLESS_THRESHOLD


def _host(text: str, start_tls: bool) -> LdapHost:  # noqa: FBT001 - the setting beside the host
    found = _HOST.fullmatch(text.strip()) if len(text) <= LONGEST_HOST else None
    if found is None:
        raise BadRequest("hosts: write each as ldaps://dc1.example.org, with a port if it is another one", words="ldap_host")
    scheme, name, port = found[1].lower(), found[2].lower().strip("[]"), int(found[3] or 0)
    if scheme == "ldap" and not start_tls:
        raise BadRequest("hosts: ldap:// is not encrypted: use ldaps://, or turn on start_tls", words="ldap_in_clear")
    if scheme == "ldaps" and start_tls:
        raise BadRequest("hosts: with start_tls, write each as ldap://dc1.example.org", words="ldap_start_tls")
    if found[3] and not 0 < port < 1 << 16:
        raise BadRequest("hosts: a port is a number from 1 to 65535", words="ldap_host")
    if ":" in name:
        try:
            ip_address(name)
        except ValueError:
            raise BadRequest("hosts: not a valid host", words="ldap_host") from None
    return LdapHost(name, port or (_PLAIN_PORT if start_tls else _TLS_PORT))


def host_in(text: str, *, start_tls: bool) -> str:
    """The host in the form in which it is kept. Raises `BadRequest`."""
    place = _host(text, start_tls)
    name = f"[{place.name}]" if ":" in place.name else place.name
    return f"{'ldap' if start_tls else 'ldaps'}://{name}:{place.port}"


def _require_dn(field: str, text: str) -> None:
    """Only roughly: the directory reads it. Active Directory also takes `name@domain` as the bind DN."""
    if not text:
        return
    is_dn = all(_DN_PART.fullmatch(one) for one in _DN_PARTS.findall(text)) and not text.strip().endswith(",")
    is_principal = field == "bind_dn" and re.fullmatch(r"[^\s@=,]+@[^\s@=,]+", text) is not None
    if len(text) > LONGEST_DN or not text.isprintable() or not (is_dn or is_principal):
        raise BadRequest(f"{field}: a name such as cn=reader,ou=people,dc=example,dc=org", words="ldap_dn")


def _require_attributes(field: str, names: Sequence[str]) -> None:
    if not all(is_attribute(one) for one in names):
        raise BadRequest(f"{field}: the name of an attribute, such as mail", words="ldap_attribute")
    require_no_credential(field, names)


def _require_within(field: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise BadRequest(f"{field}: a number from 1 to {most}", words="field_bounds", values={"least": 1, "most": most})
