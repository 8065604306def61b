"""Set-up links. What platform owners make for customers is in `routes/platform/setup_links.py`; the pages behind the links are in
`pages/setup`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import SetupDraftId, SetupLinkId, UpstreamProviderId
from core.domain.identity.proofs import StepUp
from core.domain.languages import Language
from core.domain.tenancy.management_keys import NewMachineKey
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.setup import SetupDraft, SetupDraftState, SetupLink, SetupLinkState, SetupPurpose, seen_digest
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.usecases.tenancy.setup.setup_links import WantedSetupLink
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SHOWN_ONCE, CreatedAt, EmailText, Id, Name, OrganizationPath, Total, email_field, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.connections import ConfirmedSettings
from entrypoints.http.routes.tenancy.upstream_providers import UpstreamProviderRecord, record_of
from ports.tenancy.connections import ListedSetupLink

_TAGS = ("setup-links",)
_LINKS = "/api/organizations/{org_slug}/setup-links"
_LINK = f"{_LINKS}/{{link_id}}"
_VIEW = able(Capability.SETTINGS_MANAGE, impersonated=True)
# A link outlasts an impersonation.
_MAKE = able(Capability.SETTINGS_MANAGE, impersonated=False)

_LinkName = Annotated[Name, example("Directory of Example Ltd")]
_Purposes = Annotated[tuple[SetupPurpose, ...], msgspec.Meta(min_length=1, max_length=10), example(["domain", "connection"])]


class SetupLinkPath(OrganizationPath, frozen=True):
    link_id: UUID
    """The setup link's ID."""


class SetupDraftPath(OrganizationPath, frozen=True):
    link_id: UUID
    """The setup link's ID."""
    draft_id: UUID
    """The setup draft's ID."""


class NewCustomerLink(msgspec.Struct, frozen=True, kw_only=True):
    """The purposes and the recipient of a setup link."""

    name: _LinkName
    """The link's name. The audit log shows it with every action of the link."""
    purposes: _Purposes
    """What the link can set up. It gives access to nothing else."""
    email: EmailText | None = None
    """The email address that Postern sends the link to. If omitted, share the link yourself."""
    language: Annotated[Language, example("en")] | None = None
    """The language of the email."""


class NewSetupLink(msgspec.Struct, frozen=True, kw_only=True):
    """The purposes and the recipient of a setup link, and whether its settings become active automatically."""

    name: _LinkName
    """The link's name. The audit log shows it with every action of the link."""
    purposes: _Purposes
    """What the link can set up. It gives access to nothing else, and can do nothing that you cannot do."""
    email: EmailText | None = None
    """The email address that Postern sends the link to. If omitted, share the link yourself."""
    language: Annotated[Language, example("en")] | None = None
    """The language of the email."""
    activates: Annotated[bool, example(False)] = False
    """Whether settings that pass their test become active automatically. Only an owner can choose this. Otherwise an owner decides."""


class SetupDraftRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A draft: the settings that were entered with a setup link for one purpose."""

    id: Id
    purpose: SetupPurpose
    """What the draft sets up."""
    subject: Annotated[str, example("example.org")]
    """The domain, the host of the SIEM, or the name of the connection or directory."""
    state: SetupDraftState
    """Whether the draft has passed its test, was handed over and awaits an owner, or is active. Only active settings have an effect."""
    digest: Annotated[str, example("9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3")]
    """The digest of all settings. Send it to activate the draft."""
    connection: UpstreamProviderRecord | None
    """The settings of a connection; null for other purposes, and before settings are entered."""
    provider_type: Annotated[str, example("splunk")] | None
    """The format of a SIEM; null for other purposes."""
    endpoint_url: Annotated[str, example("https://siem.example.org/services/collector")] | None
    """The complete URL of a SIEM; null for other purposes."""
    token_prefix: Annotated[str, example("scim_a1b2c3")] | None
    """The prefix of a SCIM token; null for other purposes."""
    tested_at: datetime | None
    """When the draft was last tested; null if never."""
    waiting_since: datetime | None
    """When the draft was handed over to the owners; null if it does not await an owner."""
    activated_at: datetime | None
    """When the draft was activated; null if it was not."""
    created_at: CreatedAt


class SetupLinkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A setup link, without its token."""

    id: Id
    name: _LinkName
    """The link's name."""
    prefix: Annotated[str, example("pts_a1b2c3")]
    """The prefix of the token, for identification."""
    purposes: Sequence[SetupPurpose]
    """What the link can set up."""
    activates: Annotated[bool, example(False)]
    """Whether settings that pass their test become active automatically."""
    by_platform: Annotated[bool, example(False)]
    """Whether a platform owner created the link."""
    state: SetupLinkState
    """Whether the link is unused, in use, finished, expired or revoked."""
    mailed_to: Annotated[str, example("grace@example.org")] | None
    """The email address that Postern sent the link to; null if Postern did not send it."""
    expires_at: datetime
    """When the link expires: 7 days after its creation."""
    created_at: CreatedAt
    created_by: UUID
    """The user who created the link."""
    used_by: Annotated[str, example("Grace Hopper")] | None
    """The name that was entered in the browser that uses the link; null if no browser uses it. The name is not verified."""
    used_at: datetime | None
    """When this browser started to use the link; null if no browser uses it."""
    used_from: Annotated[str, example("198.51.100.7")] | None
    """The IP address of this browser; null if no browser uses the link."""
    used_with: Annotated[str, example("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")] | None
    """The name that this browser reports; null if no browser uses the link."""
    revoked_at: datetime | None
    """When the link was revoked; null if it was not."""
    drafts: Sequence[SetupDraftRecord]
    """The drafts that were made with the link, the oldest first."""


class SetupLinkList(msgspec.Struct, frozen=True):
    """All setup links, including expired and revoked links."""

    setup_links: Sequence[SetupLinkRecord]
    """The links, the newest first."""
    total: Total


class CreatedSetupLink(msgspec.Struct, frozen=True, kw_only=True):
    """The new setup link. This is the only response that contains the link itself."""

    id: Id
    name: _LinkName
    """The link's name."""
    url: Annotated[str, SHOWN_ONCE, example("https://id.example.com/ui/setup/pts_a1b2c3_Zk8vQ1nR5tYw3XcB7mLp0HsD")]
    """The link. Only the first browser that presses its button can use it."""
    purposes: Sequence[SetupPurpose]
    """What the link can set up."""
    activates: Annotated[bool, example(False)]
    """Whether settings that pass their test become active automatically."""
    mailed_to: Annotated[str, example("grace@example.org")] | None
    """The email address that Postern sends the link to; null if Postern does not send it."""
    expires_at: datetime
    """When the link expires."""
    created_at: CreatedAt


@endpoint.post(_LINKS, caller=_MAKE, step_up=StepUp.ACCOUNT, limit=CREDENTIALS, status=201, refuses=(BadRequest,), tags=_TAGS)
async def create_setup_link(call: Call[NewSetupLink, None, OrganizationPath, Member], postern: Postern) -> CreatedSetupLink:
    """Create a setup link

    The link is for a person without an account, such as a customer's administrator. With the link, this person can set up email domains, a
    connection, SCIM or a SIEM of this organization, and nothing else. The link is shown only once, and expires after 7 days. Only the first
    browser that presses its button can use it. It can never do more than you can. Requires a recent sign-in or reauthentication.
    """
    body = call.body
    wanted = wanted_link(body.name, body.purposes, body.email, body.language, postern)
    made = await postern.tenancy.setup_links.create(call.caller, call.actor, wanted, activates=body.activates)
    return created_setup_link(made, postern)


@endpoint.get(_LINKS, caller=_VIEW, tags=_TAGS)
async def list_setup_links(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> SetupLinkList:
    """List the setup links of an organization

    Return the links, the newest first, each with its drafts and the browser that uses it. A link that no longer works is listed for 30
    days.
    """
    listed = await postern.tenancy.setup_links.list(call.caller.organization)
    now = postern.foundation.clock.now()
    return SetupLinkList([setup_link_record(one, now, postern) for one in listed], len(listed))


@endpoint.get(_LINK, caller=_VIEW, tags=_TAGS)
async def get_setup_link(call: Call[None, None, SetupLinkPath, Member], postern: Postern) -> SetupLinkRecord:
    """Get a setup link

    Return the link's details and its drafts. The link itself is only in the response that created it.
    """
    found = await postern.tenancy.setup_links.get(call.caller.organization, SetupLinkId(call.path.link_id))
    return setup_link_record(found, postern.foundation.clock.now(), postern)


@endpoint.delete(_LINK, caller=_VIEW, status=204, tags=_TAGS)
async def revoke_setup_link(call: Call[None, None, SetupLinkPath, Member], postern: Postern) -> NoBody:
    """Revoke a setup link

    The link stops working with the next request, and its drafts are deleted, unless they are active. This cannot be undone.
    """
    await postern.tenancy.setup_links.revoke(call.caller, SetupLinkId(call.path.link_id), call.actor)
    return NO_BODY


@endpoint.post(f"{_LINK}/release", caller=_MAKE, limit=CREDENTIALS, status=204, tags=_TAGS)
async def release_setup_link(call: Call[None, None, SetupLinkPath, Member], postern: Postern) -> NoBody:
    """Release a setup link from its browser

    The next browser that presses the link's button can use it, and continues where the previous browser stopped.
    """
    await postern.tenancy.setup_links.release(call.caller, SetupLinkId(call.path.link_id), call.actor)
    return NO_BODY


@endpoint.post(
    f"{_LINK}/drafts/{{draft_id}}/activate",
    caller=OWNER_IN_PERSON,
    step_up=StepUp.ACCOUNT,
    limit=CREDENTIALS,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def activate_setup_draft(call: Call[ConfirmedSettings, None, SetupDraftPath, Member], postern: Postern) -> SetupDraftRecord:
    """Activate a setup draft

    The draft must have passed its test, and must have been handed over with its current settings. Send its `digest`; if the settings have
    changed since, the response is 409. The link can no longer change the settings. Only an owner can do this, after recent
    reauthentication.
    """
    link, draft = SetupLinkId(call.path.link_id), SetupDraftId(call.path.draft_id)
    await postern.tenancy.setup_drafts.activate(call.caller, link, draft, call.actor, seen=call.body.digest)
    found = await postern.tenancy.setup_links.get(call.caller.organization, link)
    return next(_draft_record(one, found.connections, postern) for one in found.drafts if one.id == draft)


def wanted_link(
    name: str, purposes: Sequence[SetupPurpose], email: str | None, language: Language | None, postern: Postern
) -> WantedSetupLink:
    mail_to = None if email is None else email_field(email, postern.foundation.email_syntax)
    return WantedSetupLink(name=name, purposes=purposes, mail_to=mail_to, language=language)


def created_setup_link(made: NewMachineKey[SetupLink], postern: Postern) -> CreatedSetupLink:
    return _created(made.key, url=postern.foundation.links.setup(made.text))


def setup_link_record(listed: ListedSetupLink, now: datetime, postern: Postern) -> SetupLinkRecord:
    drafts = [_draft_record(draft, listed.connections, postern) for draft in listed.drafts]
    return _record(listed.link, state=listed.link.state(now), drafts=drafts)


_created = shown(SetupLink, CreatedSetupLink, given=("url",))
_record = shown(SetupLink, SetupLinkRecord, given=("state", "drafts"))
_draft = shown(
    SetupDraft,
    SetupDraftRecord,
    given=("digest", "connection"),
    provider_type=lambda draft: _text(draft, SetupPurpose.SIEM, "provider"),
    endpoint_url=lambda draft: _text(draft, SetupPurpose.SIEM, "endpoint_url"),
    token_prefix=lambda draft: _text(draft, SetupPurpose.SCIM, "prefix"),
)


def _draft_record(draft: SetupDraft, connections: Mapping[UpstreamProviderId, UpstreamProvider], postern: Postern) -> SetupDraftRecord:
    connection = None if draft.provider is None else connections.get(draft.provider)
    shown_connection = None if connection is None else record_of(postern, connection)
    return _draft(draft, digest=seen_digest(draft, connection).hex(), connection=shown_connection)


def _text(draft: SetupDraft, purpose: SetupPurpose, name: str) -> str | None:
    value = draft.settings.get(name) if draft.purpose is purpose else None
    return None if value is None else str(value)
