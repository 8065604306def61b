"""The hook that is asked before a sign-in: an organization's, which its owners set, and the installation's, which platform owners do."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identity.proofs import StepUp
from core.domain.outbound import LONGEST_URL
from core.domain.tenancy.hooks import DEFAULT_SECONDS, MOST_SECONDS, HookDraft, HookExchange, HookPoint, HookSilence, HookStands
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.usecases.tenancy.hooks import HookWithSecret, ShownHook
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, PLATFORM_OWNER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import Endpoints, endpoint
from entrypoints.http.machinery.fields import SHOWN_ONCE, OrganizationPath, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS, UNLIMITED
from ports.tenancy.hooks import UnaskedAccess

_TAGS: Final = ("hooks",)
_HOOK: Final = "/api/organizations/{org_slug}/hooks/sign-in"
_HOOK_OF_INSTALLATION: Final = "/api/platform/hooks/sign-in"
_SEES: Final = able(Capability.WEBHOOKS_MANAGE, impersonated=True)
_DIGEST: Final = "9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3"
_SEEN: Final = f"{_DIGEST}.4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"

_Address = Annotated[str, bounded({"maxLength": LONGEST_URL, "format": "uri"}, examples=["https://checks.example.org/sign-in"])]
_Silence = Annotated[HookSilence, example("go_on")]
_Seconds = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_SECONDS}), example(DEFAULT_SECONDS)]
_Masked = Annotated[str, example('{"point": "sign_in", "user": {"sub": "***36"}, "way": "password", "factors": ["pwd"]}')]


class HookBody(msgspec.Struct, frozen=True, kw_only=True):
    """The URL that is called before a sign-in, and what happens if it does not respond."""

    address: _Address
    """The URL that hook requests are sent to: an `https` URL."""
    silence: _Silence
    """What happens to a sign-in if the hook does not respond, or sends an invalid response: `go_on` allows it, `refuse` denies it."""
    seconds: _Seconds = DEFAULT_SECONDS
    """The timeout of a request: 1 to 5 seconds."""
    digest: Annotated[str, msgspec.Meta(max_length=64), example(_DIGEST)] | None = None
    """The `digest` of the settings that you have seen; null if there is no hook. If the settings have changed since, the response is 409.
    """


class SeenReport(msgspec.Struct, frozen=True, kw_only=True):
    """The settings and the report that the owner approves."""

    digest: Annotated[str, msgspec.Meta(max_length=129), example(_SEEN)]
    """The `digest` of the settings and of what the report shows. If either has changed since, the response is 409."""


class HookReportRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The hook's decisions since its current settings took effect."""

    asked: Annotated[int, example(120)]
    """The number of hook requests."""
    silent: Annotated[int, example(2)]
    """The number of requests without a valid response."""
    refused: Annotated[int, example(3)]
    """The number of sign-ins that the hook denied."""
    factors: Annotated[int, example(5)]
    """The number of sign-ins for which the hook required MFA or a passkey."""
    mean_milliseconds: Annotated[int, example(48)]
    """The average response time in milliseconds."""
    slowest_milliseconds: Annotated[int, example(310)]
    """The longest response time in milliseconds."""
    may_count: Annotated[bool, example(True)]
    """Whether an owner can enforce the hook now: after 100 requests, or an hour in report-only mode."""
    digest: Annotated[str, example(_SEEN)]
    """The digest of the settings and of what this report shows. Send it to enforce the hook. It stays the same while the figures change
    little.
    """


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The hook, without its secret. If there is no hook, the fields are null."""

    id: UUID | None
    """The hook's ID."""
    point: Annotated[HookPoint, example("sign_in")]
    """When the hook is called: before a sign-in."""
    address: _Address | None
    """The URL that hook requests are sent to."""
    silence: _Silence | None
    """What happens to a sign-in if the hook does not respond."""
    seconds: _Seconds | None
    """The timeout of a request, in seconds."""
    stands: Annotated[HookStands, example("shadow")] | None
    """`shadow` (report-only): the hook is called and its responses are recorded, without effect. `counts`: the hook is enforced."""
    since: datetime | None
    """When the current settings took effect. Null while jobs are paused after a restore."""
    is_held: Annotated[bool, example(False)]
    """Whether the hook is not called because jobs are paused after a restore of the installation. An enforced hook is still called."""
    has_secret: Annotated[bool, example(True)]
    """Whether the hook has a secret that signs requests. A hook without a secret, imported with its organization, is not called."""
    listed_only: Annotated[int, example(0)]
    """The number of unconfirmed members. Their sign-ins send no hook request until they confirm the membership or consent to an
    application.
    """
    user_keys: Annotated[int, example(0)]
    """The number of user API keys at your organization's applications. They stay valid after a denial: key checks do not call the hook."""
    report: HookReportRecord | None
    """The hook's decisions since `since`."""
    digest: Annotated[str, example(_DIGEST)] | None
    """The digest of these settings. Send it to change them."""
    created_at: datetime | None
    """When the hook was created."""
    updated_at: datetime | None
    """When the hook was last changed."""


class HookSecretRecord(HookRecord, frozen=True, kw_only=True):
    """The hook, with its secret if it has a new one."""

    secret: Annotated[str | None, SHOWN_ONCE, example("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=")]
    """The secret that signs the hook requests. It is shown only once. Null if the hook keeps its secret."""


class HookExchangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A hook request and its response, with every text masked by its length."""

    id: UUID
    """The ID of the request, which the receiver gets as `id`."""
    at: datetime
    """When the request was sent."""
    milliseconds: Annotated[int, example(48)]
    """The response time in milliseconds."""
    outcome: Annotated[str, example("go_on")]
    """`go_on`, `second_factor`, `passkey`, `no` or `silent`."""
    why: Annotated[str, example("place")] | None
    """The reason for a denial or a missing response."""
    counted: Annotated[bool, example(False)]
    """Whether the response was enforced. In report-only mode, no response is enforced."""
    is_test: Annotated[bool, example(False)]
    """Whether it was a test request with sample data."""
    sent: _Masked
    """The request."""
    answered: Annotated[str, example('{"decision": "go_on"}')] | None
    """The response; null if there was none."""


class HookTrialRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The hook's response to a test request."""

    success: Annotated[bool, example(True)]
    """Whether the hook sent a valid response."""
    outcome: Annotated[str, example("go_on")]
    """`go_on`, `second_factor`, `passkey`, `no` or `silent`."""
    why: Annotated[str, example("place")] | None
    """The reason for a denial or a missing response."""
    milliseconds: Annotated[int, example(48)]
    """The response time in milliseconds."""


@endpoint.get(_HOOK, caller=_SEES, keys=True, verb="hook get", tags=_TAGS)
async def get_sign_in_hook(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> HookRecord:
    """Get the sign-in hook of an organization

    The hook is called last, after all authentication methods, and can only make a sign-in stricter. The report shows failed and slow
    requests.
    """
    hooks, organization = postern.tenancy.hooks, call.caller.organization
    found = await hooks.get(organization)
    return _record(found) if found is not None else _no_hook(await hooks.unasked(organization))


@endpoint.put(
    _HOOK, caller=OWNER_IN_PERSON, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Conflict), verb="hook set", tags=_TAGS
)
async def set_sign_in_hook(call: Call[HookBody, None, OrganizationPath, Member], postern: Postern) -> HookSecretRecord:
    """Set the sign-in hook of an organization

    Only an owner can do this. A new or changed hook starts in report-only mode: it is called and its responses are recorded, but have no
    effect until an owner enforces it. Earlier responses no longer apply. If the hook is new, the response has a `secret`: verify
    `webhook-signature` with it, as in Standard Webhooks. The hook receives data about confirmed members and about people who consented to
    the application, limited to what the application can see.
    """
    return _with_secret(await postern.tenancy.hooks.put(call.caller, _draft(call.body), call.actor, seen=call.body.digest))


@endpoint.delete(_HOOK, status=204, caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, verb="hook remove", tags=_TAGS)
async def remove_sign_in_hook(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> NoBody:
    """Delete the sign-in hook of an organization

    Only an owner can do this. The hook is no longer called, and its earlier responses no longer apply.
    """
    await postern.tenancy.hooks.delete(call.caller, call.actor)
    return NO_BODY


@endpoint.post(
    f"{_HOOK}/rotate-secret", caller=OWNER_IN_PERSON, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, verb="hook rotate-secret", tags=_TAGS
)
async def rotate_sign_in_hook_secret(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> HookSecretRecord:
    """Rotate the secret of an organization's sign-in hook

    Only an owner can do this. For 24 hours, `webhook-signature` also has a signature with the previous secret.
    """
    return _with_secret(await postern.tenancy.hooks.rotate_secret(call.caller, call.actor))


@endpoint.post(
    f"{_HOOK}/count",
    caller=OWNER_IN_PERSON,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    verb="hook count",
    tags=_TAGS,
)
async def activate_sign_in_hook(call: Call[SeenReport, None, OrganizationPath, Member], postern: Postern) -> HookRecord:
    """Enforce the sign-in hook of an organization

    Only an owner can do this, after 100 requests or 1 hour in report-only mode. Send the `digest` of the settings and of the report; if
    either has changed, the response is 409. From then on a sign-in needs the hook's response, and people with an open session must sign in
    again. Owners are never denied.
    """
    return _record(await postern.tenancy.hooks.let_count(call.caller, call.actor, seen=call.body.digest))


@endpoint.post(f"{_HOOK}/shadow", caller=OWNER_IN_PERSON, limit=UNLIMITED, step_up=StepUp.ACCOUNT, verb="hook shadow", tags=_TAGS)
async def disable_sign_in_hook(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> HookRecord:
    """Switch the sign-in hook of an organization to report-only

    Only an owner can do this. The hook is still called, but its responses, including earlier ones, have no effect. The request can be
    repeated safely.
    """
    return _record(await postern.tenancy.hooks.put_in_shadow(call.caller, call.actor))


@endpoint.post(f"{_HOOK}/try", caller=OWNER_IN_PERSON, limit=CREDENTIALS, refuses=(Conflict,), verb="hook try", tags=_TAGS)
async def test_sign_in_hook(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> HookTrialRecord:
    """Send a test request to the sign-in hook of an organization

    Only an owner can do this. The request has sample data, and the response has no effect.
    """
    return _trial(await postern.tenancy.hooks.test(call.caller, call.actor))


@endpoint.get(f"{_HOOK}/exchanges", caller=_SEES, keys=True, verb="hook exchanges", tags=_TAGS)
async def list_sign_in_hook_exchanges(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[HookExchangeRecord]:
    """List the recent requests of an organization's sign-in hook

    Return the last 50 requests of the last 7 days, the newest first. Each text is replaced by its length.
    """
    return [_exchange(one) for one in await postern.tenancy.hooks.exchanges(call.caller.organization)]


@endpoint.get(_HOOK_OF_INSTALLATION, caller=PLATFORM_OWNER, verb="installation-hook get", tags=_TAGS)
async def get_installation_sign_in_hook(_call: Call, postern: Postern) -> HookRecord:
    """Get the sign-in hook of the installation

    The hook of the installation is called before the organization's hook, for the same people. A denial blocks only the organization of the
    sign-in. Sign-ins at the base URL call no hook.
    """
    return _record(await postern.tenancy.hooks.get(None))


@endpoint.put(
    _HOOK_OF_INSTALLATION,
    caller=PLATFORM_OWNER,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    verb="installation-hook set",
    tags=_TAGS,
)
async def set_installation_sign_in_hook(call: Call[HookBody], postern: Postern) -> HookSecretRecord:
    """Set the sign-in hook of the installation

    A new or changed hook starts in report-only mode, like the hook of an organization. If the hook is new, the response has a `secret`.
    """
    return _with_secret(await postern.tenancy.hooks.put(call.presented, _draft(call.body), call.actor, seen=call.body.digest))


@endpoint.delete(
    _HOOK_OF_INSTALLATION,
    status=204,
    caller=PLATFORM_OWNER,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    verb="installation-hook remove",
    tags=_TAGS,
)
async def remove_installation_sign_in_hook(call: Call, postern: Postern) -> NoBody:
    """Delete the sign-in hook of the installation

    The hook is no longer called, and its earlier responses no longer apply.
    """
    await postern.tenancy.hooks.delete(call.presented, call.actor)
    return NO_BODY


@endpoint.post(
    f"{_HOOK_OF_INSTALLATION}/rotate-secret",
    caller=PLATFORM_OWNER,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    verb="installation-hook rotate-secret",
    tags=_TAGS,
)
async def rotate_installation_sign_in_hook_secret(call: Call, postern: Postern) -> HookSecretRecord:
    """Rotate the secret of the installation's sign-in hook

    For 24 hours, `webhook-signature` also has a signature with the previous secret.
    """
    return _with_secret(await postern.tenancy.hooks.rotate_secret(call.caller, call.actor))


@endpoint.post(
    f"{_HOOK_OF_INSTALLATION}/count",
    caller=PLATFORM_OWNER,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    verb="installation-hook count",
    tags=_TAGS,
)
async def activate_installation_sign_in_hook(call: Call[SeenReport], postern: Postern) -> HookRecord:
    """Enforce the sign-in hook of the installation

    You can enforce the hook after 100 requests or 1 hour in report-only mode. Send the `digest` of the settings and of the report; if
    either has changed, the response is 409.
    """
    return _record(await postern.tenancy.hooks.let_count(call.caller, call.actor, seen=call.body.digest))


@endpoint.post(
    f"{_HOOK_OF_INSTALLATION}/shadow",
    caller=PLATFORM_OWNER,
    limit=UNLIMITED,
    step_up=StepUp.ACCOUNT,
    verb="installation-hook shadow",
    tags=_TAGS,
)
async def disable_installation_sign_in_hook(call: Call, postern: Postern) -> HookRecord:
    """Switch the sign-in hook of the installation to report-only

    The hook is still called, but its responses, including earlier ones, have no effect. The request can be repeated safely.
    """
    return _record(await postern.tenancy.hooks.put_in_shadow(call.caller, call.actor))


@endpoint.post(
    f"{_HOOK_OF_INSTALLATION}/try",
    caller=PLATFORM_OWNER,
    limit=CREDENTIALS,
    refuses=(Conflict,),
    verb="installation-hook try",
    tags=_TAGS,
)
async def test_installation_sign_in_hook(call: Call, postern: Postern) -> HookTrialRecord:
    """Send a test request to the sign-in hook of the installation

    The request has sample data, and the response has no effect.
    """
    return _trial(await postern.tenancy.hooks.test(call.caller, call.actor))


@endpoint.get(f"{_HOOK_OF_INSTALLATION}/exchanges", caller=PLATFORM_OWNER, verb="installation-hook exchanges", tags=_TAGS)
async def list_installation_sign_in_hook_exchanges(_call: Call, postern: Postern) -> Sequence[HookExchangeRecord]:
    """List the recent requests of the installation's sign-in hook

    Return the last 50 requests of the last 7 days, the newest first. Each text is replaced by its length.
    """
    return [_exchange(one) for one in await postern.tenancy.hooks.exchanges(None)]


# The OpenAPI document has them among the endpoints of the installation.
OF_INSTALLATION: Final = Endpoints(
    [
        get_installation_sign_in_hook,
        set_installation_sign_in_hook,
        remove_installation_sign_in_hook,
        rotate_installation_sign_in_hook_secret,
        activate_installation_sign_in_hook,
        disable_installation_sign_in_hook,
        test_installation_sign_in_hook,
        list_installation_sign_in_hook_exchanges,
    ]
)


_draft = taken(HookBody, HookDraft, apart=("digest",))

_report = shown(
    ShownHook,
    HookReportRecord,
    within=("report",),
    named={"mean_milliseconds": "report.mean", "slowest_milliseconds": "report.slowest", "digest": "seen"},
)
_hook = shown(
    ShownHook,
    HookRecord,
    within=("hook",),
    named={"listed_only": "unasked.listed_members", "user_keys": "unasked.user_keys"},
    since=lambda one: None if one.hook.is_held else one.hook.since,
    is_held=lambda one: one.hook.is_held and one.hook.stands is HookStands.SHADOW,
    has_secret=lambda one: one.hook.secret_made_at is not None,
    report=_report,
)

_NOTHING: Final[Mapping[str, Any]] = dict.fromkeys(
    ("id", "address", "silence", "seconds", "stands", "since", "report", "digest", "created_at", "updated_at")
)


def _record(found: ShownHook | None) -> HookRecord:
    return _no_hook(UnaskedAccess()) if found is None else _hook(found)


def _with_secret(made: HookWithSecret) -> HookSecretRecord:
    return HookSecretRecord(**msgspec.structs.asdict(_record(made.shown)), secret=None if made.secret is None else made.secret.reveal())


def _no_hook(unasked: UnaskedAccess) -> HookRecord:
    return HookRecord(
        point=HookPoint.SIGN_IN,
        has_secret=False,
        is_held=False,
        listed_only=unasked.listed_members,
        user_keys=unasked.user_keys,
        **_NOTHING,
    )


_exchange = shown(HookExchange, HookExchangeRecord, why=lambda one: one.why or None, answered=lambda one: one.answered or None)
_trial = shown(HookExchange, HookTrialRecord, success=lambda one: one.outcome != "silent", why=lambda one: one.why or None)
