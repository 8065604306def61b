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
    """Also delete the API keys and client secrets that the key created, and cancel its pending invitations. You need the permission to
    manage services.
    """


class NewManagementKey(msgspec.Struct, frozen=True, kw_only=True):
    """The name and the capabilities of a new management API key."""

    name: Annotated[Name, example("Nightly sync")]
    """The key's name. The audit log shows it with every action of the key."""
    capabilities: Annotated[tuple[Capability, ...], msgspec.Meta(max_length=100), example(["org.members.view", "services.manage"])]
    """The capabilities of the key. You cannot grant capabilities that you do not have. Only an owner can grant `connections.manage`."""
    expires_in_days: Days = USUAL_LIFE
    """The number of days until the key expires, 1 to 365."""


class ManagementKeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A management API key, without the key itself."""

    id: Id
    name: Annotated[str, example("Nightly sync")]
    """The key's name."""
    prefix: Annotated[str, example("pto_a1b2c3")]
    """The prefix of the key, for identification."""
    capabilities: Annotated[Sequence[str], example(["org.members.view", "services.manage"])]
    """The capabilities of the key. Until an owner adopts the key, each applies only while the creator of the key has it, too."""
    last_used_at: datetime | None
    """When the key was last used, with a precision of 1 minute; null if it was never used."""
    expires_at: datetime
    """When the key expires."""
    created_at: CreatedAt
    created_by: UUID
    """The user who created the key."""
    maker_email: EmailAddress | None
    """The email address of the creator; null if the account was deleted."""
    maker_is_here: Annotated[bool, example(True)]
    """Whether the creator is still a member of the organization. For a key of the platform: whether the creator is still a platform owner.
    """
    adopted_at: datetime | None
    """When an owner adopted the key; null if the key still depends on its creator."""
    adopted_by: UUID | None
    """The owner who adopted the key; null if no one did."""
    former_secret_until: datetime | None
    """When the secret from before the adoption stops working; null if it no longer works."""


class AdoptedManagementKey(ManagementKeyRecord, frozen=True, kw_only=True):
    """The adopted management API key. Only the response to the adoption itself contains the new key."""

    key: Annotated[str | None, SHOWN_ONCE, example("pto_d4e5f6_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The new key, to send as a Bearer token. It is shown only once. Null if you had already adopted the key."""


class CreatedManagementKey(msgspec.Struct, frozen=True, kw_only=True):
    """The new management API key. This is the only response that contains the key itself."""

    id: Id
    name: Annotated[str, example("Nightly sync")]
    """The key's name."""
    prefix: Annotated[str, example("pto_a1b2c3")]
    """The prefix of the key, for identification."""
    key: Annotated[str, SHOWN_ONCE, example("pto_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The key, to send as a Bearer token. It is shown only once."""
    capabilities: Annotated[Sequence[str], example(["org.members.view", "services.manage"])]
    """The capabilities of the key."""
    expires_at: datetime
    """When the key expires."""
    created_at: CreatedAt
    created_by: UUID
    """The user who created the key."""


class ManagementKeyList(msgspec.Struct, frozen=True):
    """All management API keys, including expired keys."""

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
    """The invited email address; null if you cannot manage members."""
    role: SlugOfRole
    accepted: bool
    """Whether the invitation was accepted. If the key is revoked, people who accepted stay members, and all other invitations are void."""
    created_at: CreatedAt


class ManagementKeyCreations(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a management API key created and that outlast it: the newest 1000 of each kind."""

    api_keys: Sequence[MadeApiKey]
    """The API keys of services."""
    client_secrets: Sequence[MadeClientSecret]
    """The client secrets of services."""
    invitations: Sequence[SentInvitation]
    """The pending and the accepted invitations."""


class ManagementKeyDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A management API key, and the objects that it created."""

    management_key: ManagementKeyRecord
    """The details of the key, without the key itself."""
    made: ManagementKeyCreations
    """The objects that the key created and that outlast it."""


class EndedManagementKey(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that the revoked key created."""

    made: ManagementKeyCreations
    """The objects that the key created and that existed when it was revoked."""
    ended_made: bool
    """Whether all of these objects were revoked with the key. If not, they keep working until you delete them."""


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

    The key is for a script that manages the organization. Send it as a Bearer token. The key is shown only once, because Postern stores
    only a digest of it. Until an owner adopts the key, it can never do more than you can. Requires a recent sign-in or reauthentication.
    """
    body = call.body
    made = await postern.tenancy.management_keys.create(
        call.caller, call.actor, name=body.name, capabilities=body.capabilities, expires_in_days=body.expires_in_days
    )
    return created_management_key(made.key, made.text.reveal())


@endpoint.get(_KEYS, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def list_management_keys(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> ManagementKeyList:
    """List the management API keys of an organization

    Return the keys, the newest first. The keys themselves are never shown. An expired key is listed for 30 days.
    """
    keys = await postern.tenancy.management_keys.list(call.caller.organization)
    return ManagementKeyList([management_key_record(key) for key in keys], len(keys))


@endpoint.get(_KEY, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def get_management_key(call: Call[None, None, ManagementKeyPath, Member], postern: Postern) -> ManagementKeyDetail:
    """Get a management API key

    Return the key's details, and the API keys, client secrets and invitations that it created. The key itself is only in the response that
    created it.
    """
    key, made = await postern.tenancy.management_keys.get(call.caller.organization, ManagementKeyId(call.path.key_id))
    return ManagementKeyDetail(management_key=management_key_record(key), made=_things(made, call.caller))


@endpoint.delete(_KEY, caller=able(Capability.INTEGRATIONS_MANAGE, impersonated=True), tags=_TAGS)
async def end_management_key(call: Call[None, EndedKeyQuery, ManagementKeyPath, Member], postern: Postern) -> EndedManagementKey:
    """Revoke a management API key

    The key stops working with the next request, and no one can accept the invitations that it sent. This cannot be undone. The response
    lists the API keys and client secrets that the key created. They keep working, unless you send `end_made` to revoke them, too. The
    response also lists the key's invitations. People who accepted one stay members.
    """
    end_made = call.query.end_made
    made = await postern.services.made_by_keys.end(call.caller, ManagementKeyId(call.path.key_id), call.actor, end_made=end_made)
    return EndedManagementKey(made=_things(made, call.caller), ended_made=end_made)


@endpoint.post(f"{_KEY}/adopt", caller=OWNER_IN_PERSON, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, tags=_TAGS)
async def adopt_management_key(call: Call[None, None, ManagementKeyPath, Member], postern: Postern) -> AdoptedManagementKey:
    """Adopt a management API key

    The key no longer depends on its creator. It keeps its capabilities until it expires or is revoked, even if the creator leaves or loses
    permissions. The response has a new key. The previous one works for 24 hours, as long as the person who created it, or adopted it before
    you, is still a member. Otherwise it stops working at once. Only an owner can do this. Requires a recent sign-in or reauthentication.
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
