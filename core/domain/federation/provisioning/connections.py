"""Outbound SCIM connections, which provision an application's users: presets, attribute mappings, tokens, and activation."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final, Literal
from uuid import UUID

from core.domain.errors import BadRequest, Conflict
from core.domain.federation.scim.protocol import ENTERPRISE_SCHEMA
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ServiceId, TeamId
from core.domain.outbound import NotADestination, OutboundDestination, destination, is_public
from core.domain.record.events import Actor, Event, Target, differences
from core.frozen import Frozen, replace, shared, values_of

MOST_MAPPED: Final = 40
MOST_CHOSEN_TEAMS: Final = 100
LONGEST_PROVISIONING_TOKEN: Final = 4_000
LONGEST_CONSTANT: Final = 200
_LONGEST_KEY: Final = 64

ProvisioningChange = Literal[
    "service.provisioning.updated",
    "service.provisioning.activated",
    "service.provisioning.deactivated",
    "service.provisioning.deleted",
]


class ProvisioningPreset(StrEnum):
    """The preset of the target system."""

    GENERIC = "generic"
    POSTERN = "postern"
    SLACK = "slack"
    AWS = "aws"


class ProvisioningState(StrEnum):
    """The state of the provisioning connection."""

    DRAFT = "draft"
    """Sends nothing: no owner has said yes to these settings."""
    ACTIVE = "active"
    STOPPED = "stopped"
    ENDING = "ending"
    """An owner has deleted it, and wants everybody ended there first."""


class ProvisioningSource(StrEnum):
    """The source of an attribute."""

    ADDRESS = "address"
    """Under which the organization lists the person."""
    USER_NAME = "user_name"
    NAME = "name"
    GIVEN_NAME = "given_name"
    FAMILY_NAME = "family_name"
    LANGUAGE = "language"
    ZONEINFO = "zoneinfo"
    ROLE = "role"
    TEAMS = "teams"
    ROLES = "roles"
    ORGANIZATION_FIELD = "organization_field"
    PERSON_FIELD = "person_field"
    CONSTANT = "constant"

    @property
    def needs_argument(self) -> bool:
        return self in {ProvisioningSource.ORGANIZATION_FIELD, ProvisioningSource.PERSON_FIELD, ProvisioningSource.CONSTANT}


class MappedAttribute(Frozen):
    attribute: str
    """The path of SCIM: `userName`, `name.givenName`, `emails[type eq "work"].value`."""
    source: ProvisioningSource
    argument: Json = None
    """The key of a field, or the fixed text."""


ATTRIBUTES_THERE: Final = (
    "userName",
    "displayName",
    "name.givenName",
    "name.familyName",
    "name.formatted",
    'emails[type eq "work"].value',
    "title",
    "nickName",
    "userType",
    "preferredLanguage",
    "locale",
    "timezone",
    *(f"{ENTERPRISE_SCHEMA}:{one}" for one in ("employeeNumber", "costCenter", "organization", "division", "department")),
)
"""What a mapping may write. A password, groups, and what Postern writes itself are not among them."""


class ProvisioningDialect(Frozen):
    """What a system takes, as its public documents say it."""

    patches: bool = True
    lists: bool = True
    """It lists all of its people, page by page. Otherwise it is asked for each."""
    cursors: bool | None = None
    """It lists people by cursor (RFC 9865), whatever `lists` says of pages by number. None: a run asks it."""
    filters: bool = True
    deletes: bool = True
    """DELETE makes its data go. Otherwise a person who is deleted here becomes inactive there, and nameless."""
    needs_password: bool = False
    required: tuple[str, ...] = ("userName",)
    """Attributes that it needs of everybody, also of those who are deleted here."""
    rewrites: tuple[str, ...] = ()
    """Attributes of which it makes something else. They are written once, and not compared."""


class PresetThere(Frozen, kw_only=True):
    dialect: ProvisioningDialect
    base_url: str = ""
    """What its address looks like."""


PRESETS_THERE: Final[Mapping[ProvisioningPreset, PresetThere]] = {
    ProvisioningPreset.GENERIC: PresetThere(dialect=ProvisioningDialect()),
    ProvisioningPreset.POSTERN: PresetThere(dialect=ProvisioningDialect(cursors=False), base_url="https://id.example.org/scim/v2"),
    # DELETE deactivates there, and leaves the names. A name of Slack's own is made from an address.
    ProvisioningPreset.SLACK: PresetThere(
        dialect=ProvisioningDialect(
            cursors=False, deletes=False, required=("userName", 'emails[type eq "work"].value'), rewrites=("userName",)
        ),
        base_url="https://api.slack.com/scim/v2",
    ),
    # By number, it lists fifty people at most, and from the first one on alone. Older endpoints know nothing else.
    ProvisioningPreset.AWS: PresetThere(
        dialect=ProvisioningDialect(lists=False, cursors=True, required=("userName", "displayName", "name.givenName", "name.familyName")),
        base_url="https://scim.eu-central-1.amazonaws.com/…/scim/v2",
    ),
}

USUAL_MAPPING: Final = (
    MappedAttribute("userName", ProvisioningSource.ADDRESS),
    MappedAttribute('emails[type eq "work"].value', ProvisioningSource.ADDRESS),
    MappedAttribute("name.givenName", ProvisioningSource.GIVEN_NAME),
    MappedAttribute("name.familyName", ProvisioningSource.FAMILY_NAME),
    MappedAttribute("displayName", ProvisioningSource.NAME),
)


def dialect_of(preset: str) -> ProvisioningDialect:
    return PRESETS_THERE[ProvisioningPreset(preset)].dialect


def token_context(connection: UUID) -> str:
    """Binds the sealed token to its row, so that nobody can move it to another one."""
    return f"provisioning_connections.sealed_token:{connection}"


class ProvisioningConnection(Frozen, kw_only=True):
    """An application's connection outwards. Its token is shown to nobody."""

    id: ProvisioningConnectionId
    organization: OrganizationId
    service: ServiceId
    preset: ProvisioningPreset
    base_url: str
    token_set_at: datetime | None
    """None without a token."""
    mapping: tuple[MappedAttribute, ...]
    attributes_left_out: tuple[str, ...] = ()
    """What a run writes no more, though the mapping names it."""
    teams: tuple[TeamId, ...] | None = None
    """Only people of these teams. None: everybody whom the application admits."""
    state: ProvisioningState = ProvisioningState.DRAFT
    stopped_why: str | None = None
    active_digest: bytes | None = None
    """Of the settings that an owner has made active last."""
    people_url: str | None = None
    """The address of these settings. What we know of people there is of this address, also while a draft names another one."""
    made_at: datetime
    changed_at: datetime
    failing_since: datetime | None = None

    @property
    def digest(self) -> bytes:
        """Of everything that an owner says yes to. Another token may lead to another tenant of the same host, so its moment counts, too."""
        return sha256(json.dumps([self.said, _moment(self.token_set_at)], sort_keys=True).encode()).digest()

    @property
    def said(self) -> Mapping[str, Json]:
        return {
            "preset": self.preset.value,
            "base_url": self.base_url,
            "mapping": [[one.attribute, one.source.value, one.argument] for one in self.mapping],
            "attributes_left_out": sorted(self.attributes_left_out),
            "teams": None if self.teams is None else sorted(map(str, self.teams)),
        }

    @property
    def is_elsewhere(self) -> bool:
        """Whether the people that we know are of another address. Their ids mean other people here."""
        return self.people_url != self.base_url


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


class ProvisioningDraft(Frozen, kw_only=True):
    """What a member sends of a connection. Without a token, that of before stays, if it belongs there; so does a mapping."""

    preset: ProvisioningPreset
    base_url: str
    token: str | None
    mapping: tuple[MappedAttribute, ...] | None
    attributes_left_out: tuple[str, ...] = ()
    teams: tuple[TeamId, ...] | None = None


class ProvisioningConnectionSettings(Frozen, kw_only=True):
    """What a member has sent, checked."""

    preset: ProvisioningPreset
    base_url: str
    token: str | None
    mapping: tuple[MappedAttribute, ...]
    attributes_left_out: tuple[str, ...]
    teams: tuple[TeamId, ...] | None


connection_settings: Final = shared(ProvisioningConnectionSettings, ProvisioningConnection)


def checked_draft(draft: ProvisioningDraft, before: ProvisioningConnection | None) -> ProvisioningConnectionSettings:
    """Raises `BadRequest`."""
    base_url = draft.base_url.rstrip("/")
    _destination(base_url)
    mapping = draft.mapping if draft.mapping is not None else USUAL_MAPPING if before is None else before.mapping
    names = [one.attribute for one in mapping]
    if not 0 < len(names) <= MOST_MAPPED or len(set(names)) < len(names):
        raise BadRequest(f"mapping: 1 to {MOST_MAPPED} attributes, each once", words="field_list", values={"most": MOST_MAPPED})
    for place, one in enumerate(mapping):
        _check_attribute(place, one)
    if not set(draft.attributes_left_out) <= set(names):
        raise BadRequest("attributes_left_out: attributes of the mapping", words="tick_one")
    if missing := [one for one in PRESETS_THERE[draft.preset].dialect.required if one not in set(names) - set(draft.attributes_left_out)]:
        raise BadRequest(f"mapping: this system needs {', '.join(missing)}", words="provisioning_needs", values={"attribute": missing[0]})
    if draft.teams is not None and not 0 < len(draft.teams) <= MOST_CHOSEN_TEAMS:
        raise BadRequest(f"team_ids: 1 to {MOST_CHOSEN_TEAMS}", words="field_list", values={"most": MOST_CHOSEN_TEAMS})
    token = None if draft.token is None else _checked_token(draft.token)
    return ProvisioningConnectionSettings(**values_of(draft) | {"base_url": base_url, "token": token, "mapping": mapping})


def _destination(base_url: str) -> OutboundDestination:
    try:
        found = destination(base_url)
    except NotADestination as refusal:
        raise BadRequest(f"base_url: {refusal}", words="web_address") from None
    if "?" in base_url or "#" in base_url:
        raise BadRequest("base_url: without a query", words="web_address")
    # An address that is not public is one that the operator lets us call: nothing of it passes through the networks of others.
    if found.scheme != "https" and (found.address is None or is_public(found.address)):
        raise BadRequest("base_url: must start with https://", words="web_address")
    return found


def _checked_token(token: str) -> str:
    if not 0 < len(token) <= LONGEST_PROVISIONING_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        said = f"token: 1 to {LONGEST_PROVISIONING_TOKEN} printable characters of ASCII, without spaces"
        raise BadRequest(said, words="field_visible", values={"most": LONGEST_PROVISIONING_TOKEN})
    return token


_KEY: Final = re.compile(r"[a-z][a-z0-9_]*")


def _check_attribute(place: int, one: MappedAttribute) -> None:
    if one.attribute not in ATTRIBUTES_THERE:
        raise BadRequest(f"mapping[{place}].attribute: {', '.join(ATTRIBUTES_THERE)}", words="field_choice")
    if one.source.needs_argument:
        text = one.argument if isinstance(one.argument, str) else ""
        if one.source is ProvisioningSource.CONSTANT:
            usable = 0 < len(text) <= LONGEST_CONSTANT and text.isprintable()
        else:
            usable = len(text) <= _LONGEST_KEY and _KEY.fullmatch(text) is not None
        if not usable:
            raise BadRequest(f"mapping[{place}].argument: the key of a field, or a text", words="field_unknown")
    elif one.argument is not None:
        raise BadRequest(f"mapping[{place}].argument: {one.source} has no argument", words="claim_takes_none")


def token_stays(before: str, after: str) -> bool:
    """Whether a token that was given for the address of before may go to the new one: it belongs to scheme, host and port."""
    one, other = destination(before), destination(after)
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def drafted(before: ProvisioningConnection, draft: ProvisioningConnectionSettings, now: datetime) -> ProvisioningConnection:
    """The connection as somebody has changed it. What was active stops, unless nothing has changed."""
    token_set_at = before.token_set_at
    if draft.token is not None:
        token_set_at = now
    elif not token_stays(before.base_url, draft.base_url):
        token_set_at = None
    after = replace(before, **connection_settings(draft), token_set_at=token_set_at)
    if after.digest == before.digest:
        return before
    return replace(after, state=ProvisioningState.DRAFT, stopped_why=None, changed_at=now)


def require_not_ending(connection: ProvisioningConnection) -> None:
    """Raises `Conflict`."""
    if connection.state is ProvisioningState.ENDING:
        raise Conflict("The connection was deleted and deprovisions all users", words="provisioning_ending")


def made_active(connection: ProvisioningConnection, now: datetime) -> ProvisioningConnection:
    """Raises `BadRequest` without a token, and `Conflict`."""
    require_not_ending(connection)
    if connection.token_set_at is None:
        raise BadRequest("token: none is stored for this URL", words="provisioning_without_token")
    return replace(
        connection,
        state=ProvisioningState.ACTIVE,
        stopped_why=None,
        active_digest=connection.digest,
        people_url=connection.base_url,
        failing_since=None,
        changed_at=now,
    )


def halted(connection: ProvisioningConnection, now: datetime) -> ProvisioningConnection:
    """Sends nothing until an owner makes it active again."""
    require_not_ending(connection)
    if connection.state is not ProvisioningState.ACTIVE:
        return connection
    return replace(connection, state=ProvisioningState.STOPPED, stopped_why="by_hand", changed_at=now)


def ending(connection: ProvisioningConnection, now: datetime) -> ProvisioningConnection:
    """Ends everybody there, and goes. Raises `Conflict` for settings that no owner has seen: they may lead elsewhere."""
    if connection.token_set_at is None or connection.active_digest != connection.digest:
        raise Conflict("Activate these settings first, or keep the users there unchanged", words="provisioning_not_seen")
    return replace(connection, state=ProvisioningState.ENDING, stopped_why=None, changed_at=now)


def require_elsewhere(base_url: str, *, token_is_own: bool, directories: Sequence[str]) -> None:
    """People who come from a system must not be sent there again: neither our own server of this organization, nor a host of a directory by
    LDAP of it. Our server has more names than we know, so its token is refused at every address. Raises `Conflict`.
    """
    if token_is_own:
        raise Conflict("base_url: the token is this organization's own", words="provisioning_circle")
    if destination(base_url).host in directories:
        raise Conflict("base_url: this host is a directory of this organization", words="provisioning_circle")


def provisioning_changed(
    name: ProvisioningChange,
    before: ProvisioningConnection | None,
    after: ProvisioningConnection | None,
    service_slug: str,
    actor: Actor,
) -> Event:
    """What changed, with the earlier values and without the token. One of both is None where a connection is made or goes."""
    shown = after or before
    assert shown is not None  # noqa: S101 - one of both is there
    details = {"service_slug": service_slug, **differences(_facts(before), _facts(after))}
    return Event(name, actor, Target("service", str(shown.service)), shown.organization, details)


def _facts(connection: ProvisioningConnection | None) -> dict[str, Json]:
    if connection is None:
        return {"preset": None, "base_url": None, "attributes": [], "teams": None, "state": None}
    return {
        "preset": connection.preset.value,
        "base_url": connection.base_url,
        "attributes": [one.attribute for one in connection.mapping if one.attribute not in connection.attributes_left_out],
        "teams": None if connection.teams is None else sorted(map(str, connection.teams)),
        "state": connection.state.value,
    }
