"""Management keys: programs manage an organization with them. The keys of the platform are in `routes/platform/management_keys.py`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import ManagementKeyId
from core.domain.identity.proofs import StepUp
from core.domain.secrets import Token
from core.domain.tenancy.management_keys import LONGEST_LIFE, USUAL_LIFE, MadeByKey, MadeInvitation, MadeKey, MadeSecret, ManagementKey
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SHOWN_ONCE, CreatedAt, EmailAddress, Id, Name, OrganizationPath, SlugOfRole, Total, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("management-keys",)
_KEYS = "/api/organizations/{org_slug}/management-keys"
_KEY = f"{_KEYS}/{{key_id}}"

Days = Annotated[int, msgspec.Meta(ge=1, le=LONGEST_LIFE, examples=[USUAL_LIFE])]


class ManagementKeyPath(OrganizationPath, frozen=True):
    key_id: UUID
    """The management API key's ID."""


class EndedKeyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What else ends."""

    end_made: Annotated[bool, example(True)] = False
    """Also delete the API keys and client secrets that the key created, and cancel its invitations that wait. You need the right to manage
    services.
    """


class NewManagementKey(msgspec.Struct, frozen=True, kw_only=True):
    """The name and the capabilities of a new management API key."""

    name: Annotated[Name, example("Nightly sync")]
    """The key's name. The audit log shows it beside everything that the key does."""
    capabilities: Annotated[tuple[Capability, ...], msgspec.Meta(max_length=100), example(["org.members.view", "services.manage"])]
    """What the key may do. You cannot give a key what you may not do yourself; `connections.manage` only an owner gives."""
    expires_in_days: Days = USUAL_LIFE
    """The number of days until the key expires, 1 to 365."""


class ManagementKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A management API key, without the key itself."""

    id: Id
    name: Annotated[str, example("Nightly sync")]
    """The key's name."""
    prefix: Annotated[str, example("pto_a1b2c3")]
    """The prefix of the key, to tell it apart."""
    capabilities: Annotated[Sequence[str], example(["org.members.view", "services.manage"])]
    """What the key may do, as long as its maker may do it too, or once an owner has adopted the key."""
    last_used_at: datetime | None
    """When the key was last used, with a precision of one minute; null if it never was."""
    expires_at: datetime
    """When the key expires."""
    created_at: CreatedAt
    created_by: UUID
    """The user who created the key."""
    maker_email: EmailAddress | None
    """The email address of that user; null if the account is gone."""
    maker_is_here: Annotated[bool, example(True)]
    """Whether that user is still a member of the organization, or for a key of the platform still a platform owner."""
    adopted_at: datetime | None
    """When an owner adopted the key; null if the key still depends on its maker."""
    adopted_by: UUID | None
    """The owner who adopted the key; null if no one did."""
    former_secret_until: datetime | None
    """Until when the secret from before the adoption still works; null if it works no more."""


class AdoptedManagementKey(ManagementKeyRecord, frozen=True, kw_only=True):
    """The adopted management API key. Only the answer to the adoption itself has the new key."""

    key: Annotated[str | None, SHOWN_ONCE, example("pto_d4e5f6_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The new key, to send as a Bearer token. It is shown only once; null if you had adopted the key before."""


class CreatedManagementKey(msgspec.Struct, frozen=True, kw_only=True):
    """The new management API key. This is the only response with the key itself."""

    id: Id
    name: Annotated[str, example("Nightly sync")]
    """The key's name."""
    prefix: Annotated[str, example("pto_a1b2c3")]
    """The prefix of the key, to tell it apart."""
    key: Annotated[str, SHOWN_ONCE, example("pto_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The key, to send as a Bearer token. It is shown only once."""
    capabilities: Annotated[Sequence[str], example(["org.members.view", "services.manage"])]
    """What the key may do."""
    expires_at: datetime
    """When the key expires."""
    created_at: CreatedAt
    created_by: UUID
    """The user who created the key."""


class ManagementKeyList(msgspec.Struct, frozen=True):
    """All management API keys, expired keys included."""

    management_keys: Sequence[ManagementKeyRecord]
    """The keys, the newest first."""
    total: Total


class MadeApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key that a management API key created."""

    id: Id
    service_slug: Annotated[str, example("billing")]
    """The slug of the service."""
    name: Annotated[str, example("Billing server")]
    """The API key's name."""
    prefix: Annotated[str, example("sk_a1b2c3")]
    """The prefix of the API key."""


class MadeClientSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A client secret that a management API key created."""

    id: Id
    service_slug: Annotated[str, example("billing")]
    """The slug of the service."""
    prefix: Annotated[str, example("cs_d4e5f6")]
    """The prefix of the client secret."""


class SentInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation that a management API key sent."""

    id: Id
    email: EmailAddress | None
    """The invited email address; null unless you may manage members."""
    role: SlugOfRole
    accepted: bool
    """Whether it was accepted: it has made someone a member, who stays when the key ends. The others are void then."""
    created_at: CreatedAt


class ManagementKeyCreations(msgspec.Struct, frozen=True, kw_only=True):
    """What a management API key made that lasts without the key: the newest 1000 of each kind."""

    api_keys: Sequence[MadeApiKey]
    """The API keys of services."""
    client_secrets: Sequence[MadeClientSecret]
    """The client secrets of services."""
    invitations: Sequence[SentInvitation]
    """The invitations that wait or were accepted."""


class ManagementKeyDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A management API key, and what it created."""

    management_key: ManagementKeyRecord
    """The key, without the key itself."""
    made: ManagementKeyCreations
    """What the key created that lasts without it."""


class EndedManagementKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the revoked key had created."""

    made: ManagementKeyCreations
    """What the key created that lasted until now."""
    ended_made: bool
    """Whether all of it ended with the key. If not, it continues working until you delete it."""


@endpoint.post(
    _KEYS,
    caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=False),
    step_up=StepUp.ACCOUNT,
    limit=CREDENTIALS,
    status=201,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def create_management_key(call: Call[NewManagementKey, None, OrganizationPath, Member], postern: Postern) -> CreatedManagementKey:
    """Create a management API key

    For a program that manages the organization, and sends the key as a Bearer token. The key is shown only once: Postern stores only a
    digest of it. It never does more than you may do at that moment, until an owner adopts it. Requires a recent sign-in or
    reauthentication.
    """
    body = call.body
    made = await postern.tenancy.management_keys.create(
        call.caller, call.actor, name=body.name, capabilities=body.capabilities, expires_in_days=body.expires_in_days
    )
    return created_management_key(made.key, made.text.reveal())


@endpoint.get(_KEYS, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def list_management_keys(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ManagementKeyList:
    """List the management API keys of an organization, the newest first

    The keys themselves are never shown. An expired key stays listed for thirty days.
    """
    keys = await postern.tenancy.management_keys.list(call.caller.organization)
    return ManagementKeyList([management_key_record(key) for key in keys], len(keys))


@endpoint.get(_KEY, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def get_management_key(call: Call[None, None, ManagementKeyPath, Member], postern: Postern) -> ManagementKeyDetail:
    """Get a management API key, and the API keys, client secrets and invitations that it created

    The key itself is only in the response that created it.
    """
    key, made = await postern.tenancy.management_keys.get(call.caller.organization, ManagementKeyId(call.path.key_id))
    return ManagementKeyDetail(management_key=management_key_record(key), made=_things(made, call.caller))


@endpoint.delete(_KEY, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def end_management_key(call: Call[None, EndedKeyQuery, ManagementKeyPath, Member], postern: Postern) -> EndedManagementKey:
    """Revoke a management API key

    The key is refused with the next request, and no one can accept the invitations that it sent. This cannot be undone. The response lists
    the API keys and client secrets that the key created. They continue working, unless you ask with `end_made` that they end too. It also
    lists the invitations. People who became members by one stay members.
    """
    end_made = call.query.end_made
    made = await postern.services.made_by_keys.end(call.caller, ManagementKeyId(call.path.key_id), call.actor, end_made=end_made)
    return EndedManagementKey(made=_things(made, call.caller), ended_made=end_made)


@endpoint.post(f"{_KEY}/adopt", caller=OWNER_IN_PERSON, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, tags=_TAGS)
async def adopt_management_key(call: Call[None, None, ManagementKeyPath, Member], postern: Postern) -> AdoptedManagementKey:
    """Adopt a management API key

    From now on the key no longer depends on its maker: it keeps its capabilities until it expires or ends, even after the maker has left or
    lost rights. The response has a new key. The former one works for 24 hours, if the person who made it, or adopted it before you, is
    still a member, and as long as they are; otherwise it ends at once. Only an owner can do this. Requires a recent sign-in or
    reauthentication.
    """
    key, text = await postern.tenancy.management_keys.adopt(call.caller, ManagementKeyId(call.path.key_id), call.actor)
    return adopted_management_key(key, text)


def created_management_key(key: ManagementKey, text: str) -> CreatedManagementKey:
    return _created(key, key=text)


def adopted_management_key(key: ManagementKey, text: Token | None) -> AdoptedManagementKey:
    return _adopted(key, key=None if text is None else text.reveal())


def _maker_email(key: ManagementKey) -> str | None:
    return None if key.maker is None else key.maker.address


_created = shown(ManagementKey, CreatedManagementKey, given=("key",))
management_key_record = shown(ManagementKey, ManagementKeyRecord, named={"former_secret_until": "former_until"}, maker_email=_maker_email)
_adopted = shown(
    ManagementKey, AdoptedManagementKey, given=("key",), named={"former_secret_until": "former_until"}, maker_email=_maker_email
)
_made_key = shown(MadeKey, MadeApiKey)
_made_secret = shown(MadeSecret, MadeClientSecret)
_sent = shown(MadeInvitation, SentInvitation, given=("email",))


def _things(made: MadeByKey, reader: Member) -> ManagementKeyCreations:
    sees_addresses = reader.may(Capability.MEMBERS_MANAGE)
    return ManagementKeyCreations(
        api_keys=[_made_key(one) for one in made.api_keys],
        client_secrets=[_made_secret(one) for one in made.client_secrets],
        invitations=[_sent(one, email=one.email.address if sees_addresses else None) for one in made.invitations],
    )
