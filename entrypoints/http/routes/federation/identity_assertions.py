"""Identity assertions of an organization's own providers: an owner turns them on, and one is tried without issuing anything."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.identity_assertions import LONGEST_CLAIM, LONGEST_ISSUER, SUBJECT, AssertionSettings
from core.domain.identity.upstream.jwt_assertions import LONGEST_ASSERTION
from core.domain.outbound import LONGEST_URL
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWNER_IN_PERSON, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Word, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.tenancy.upstream_providers import (
    PROVIDER,
    UpstreamProviderPath,
    UpstreamProviderRecord,
    record_of,
)

_TAGS = ("connections",)
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)
_KEYS = {"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": "…", "y": "…"}]}


class AssertionSettingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a provider issues identity assertions (draft-ietf-oauth-identity-assertion-authz-grant-04), and how they are validated."""

    issues: Annotated[bool, example(True)]
    """Whether the provider's assertions are accepted. The provider must be active, and its current settings tested."""
    subject: Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_CLAIM}), example("sub")] = SUBJECT
    """The claim of the assertion that contains the subject that the provider uses at sign-in. With OpenID Connect, `sub` can differ from
    client to client. In this case, name a claim that contains the subject for Postern's client.
    """
    issuer: Annotated[str, bounded({"maxLength": LONGEST_ISSUER}), example("https://login.acme.example")] = ""
    """For SAML: the issuer (`iss`) of the assertions. For OpenID Connect, the provider's own issuer is used."""
    jwks_uri: Annotated[str, bounded({"maxLength": LONGEST_URL}), example("https://login.acme.example/jwks")] = ""
    """For SAML: the URL of the keys that verify the assertions."""
    jwks: Annotated[Mapping[Word, Any], example(_KEYS)] | None = None
    """For SAML: the keys themselves, in place of `jwks_uri` (RFC 7517)."""


class PresentedAssertion(msgspec.Struct, frozen=True, kw_only=True):
    """An identity assertion to check."""

    assertion: Annotated[str, msgspec.Meta(max_length=LONGEST_ASSERTION), example("eyJ0eXAiOiJvYXV0aC1pZC1qYWcrand0In0.e30.c2ln")]
    """The signed assertion, as the application would send it."""


class AssertionVerdictRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the check."""

    accepted: Annotated[bool, example(False)]
    """Whether the application would get a token."""
    fault: Annotated[str, example("audience")]
    """The reason, as a code; empty if the application would get a token."""
    words: Annotated[str, example("The assertion is not for this installation alone.")]
    """A description of the result."""
    mend: Annotated[str, example("Ask the directory for an assertion whose aud is our issuer alone.")]
    """The change that fixes the request."""


_settings = taken(AssertionSettingsBody, AssertionSettings)


@endpoint.put(
    f"{PROVIDER}/assertions",
    caller=OWNER_IN_PERSON,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def set_provider_assertions(
    call: Call[AssertionSettingsBody, None, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Set whether a provider issues identity assertions

    Only an owner can do this. If you turn this on, your confidential applications can get tokens for your APIs that act for the provider's
    people. The people are not asked: the provider decides. If you turn this off, or the provider is disabled or deleted, all sessions from
    its assertions are revoked. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    provider = UpstreamProviderId(call.path.provider_id)
    return record_of(
        postern, await postern.tenancy.upstream_providers.issue_assertions(call.caller, provider, call.actor, _settings(call.body))
    )


@endpoint.post(f"{PROVIDER}/assertions/check", caller=_IN_PERSON, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS)
async def check_provider_assertion(
    call: Call[PresentedAssertion, None, UpstreamProviderPath, Member], postern: Postern
) -> AssertionVerdictRecord:
    """Check an identity assertion of a provider

    The response says whether the application that the assertion names would get a token now, and if not, why. No token is issued, and the
    assertion can still be used.
    """
    provider = UpstreamProviderId(call.path.provider_id)
    verdict = await postern.federation.identity_assertions.try_out(call.caller, provider, call.body.assertion.strip(), call.sender)
    words, mend = verdict.said
    fault = "" if verdict.fault is None else verdict.fault.value
    return AssertionVerdictRecord(accepted=verdict.fault is None, fault=fault, words=words, mend=mend)
