"""Trusted issuers, whose signed tokens take the place of a client secret, or of a management API key."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import ManagementKeyId, TrustedIssuerId
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.trusted_issuers import (
    LONGEST_AUDIENCE,
    LONGEST_ISSUER,
    LONGEST_NAME,
    LONGEST_PATTERN,
    TrustedIssuer,
    TrustedIssuerChange,
    TrustedIssuerSettings,
)
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import CreatedAt, Id, OrganizationPath, ServiceSlug, UpdatedAt, Uri, Word, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS, UNLIMITED
from entrypoints.http.machinery.step_up import with_proof_if_needed

_TAGS = ("trusted-issuers",)
_RULES = "/api/organizations/{org_slug}/trusted-issuers"
_RULE = f"{_RULES}/{{rule_id}}"
_VIEW = able(Capability.SERVICES_VIEW, impersonated=True)
# A rule stands in place of a secret, which outlasts an impersonation.
_MANAGE = able(Capability.SERVICES_MANAGE, impersonated=False)
_ISSUER: Final = "https://token.actions.githubusercontent.com"

_Name = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_NAME}, examples=["Deploy from main"])]
_Issuer = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_ISSUER}, examples=[_ISSUER])]
_Audience = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_AUDIENCE}, examples=["https://id.acme.example"])]
_Address = Annotated[Uri, example(f"{_ISSUER}/.well-known/jwks")]
_Keys = Annotated[
    Mapping[Word, Any],
    example(
        {
            "keys": [
                {
                    "kty": "EC",
                    "crv": "P-256",
                    "use": "sig",
                    "kid": "a",
                    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
                }
            ]
        }
    ),
]
_Pattern = Annotated[
    str,
    bounded({"minLength": 1, "maxLength": LONGEST_PATTERN}, examples=["repo:acme/shop:ref:refs/heads/main"]),
]
_Claims = Annotated[Mapping[Word, Any], example({"repository_owner_id": "1342004"})]
_Service = Annotated[ServiceSlug, example("shop")]


class TrustedIssuerPath(OrganizationPath, frozen=True):
    rule_id: UUID
    """The trusted issuer's ID."""


class NewTrustedIssuer(msgspec.Struct, frozen=True, kw_only=True):
    """A new trusted issuer, for a service or for a management API key."""

    name: _Name
    """1 to 100 characters. No other trusted issuer of the organization has this name."""
    service_slug: _Service | None = None
    """The `web` or `api` service that gets tokens. It sends its client ID as `client_id`. Name either a service or a management API key."""
    management_key_id: UUID | None = None
    """The management API key whose permissions the tokens have. The workload sends this ID as `client_id`. You need the permission to
    manage integrations, all permissions of the key, and a recent sign-in or reauthentication. A management API key cannot do this.
    """
    issuer: _Issuer
    """The issuer, as in the token's `iss`. It must match exactly, including a slash at the end."""
    audience: _Audience
    """The audience, as in the token's `aud`, which must have no other value. Use the URL of this installation, so that a token made for it
    is not accepted elsewhere.
    """
    jwks_uri: _Address | None = None
    """The URL at which the issuer publishes its keys. Postern fetches them now, when they are 1 hour old, and when a token names an unknown
    key, but at most twice a minute. Send either `jwks_uri` or `jwks`.
    """
    jwks: _Keys | None = None
    """The issuer's public keys, as a JSON Web Key Set. Use it for an issuer that this installation cannot reach, such as a cluster."""
    subject_pattern: _Pattern
    """The subject, as in the token's `sub`, case-sensitive. `*` matches exactly one whole part between `:` and `/`, of visible ASCII
    characters. The first two parts cannot be `*`.
    """
    claims: _Claims = msgspec.field(default_factory=dict)
    """Claims that the token must have, with exactly these values: at most 10, each a string, an integer, true or false."""


class TrustedIssuerPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a trusted issuer. Omitted fields keep their values; send at least one. The service or the management API key cannot
    change.
    """

    name: _Name | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """The issuer, as in the token's `iss`."""
    audience: _Audience | msgspec.UnsetType = msgspec.UNSET
    """The audience, as in the token's `aud`."""
    jwks_uri: _Address | msgspec.UnsetType | None = msgspec.UNSET
    """The URL at which the issuer publishes its keys. It replaces `jwks`."""
    jwks: _Keys | msgspec.UnsetType | None = msgspec.UNSET
    """The issuer's public keys. They replace `jwks_uri`."""
    subject_pattern: _Pattern | msgspec.UnsetType = msgspec.UNSET
    """The subject, as in the token's `sub`, with `*` for whole parts after the first two."""
    claims: _Claims | msgspec.UnsetType = msgspec.UNSET
    """The claims that the token must have. They replace the previous ones."""


class TrustedIssuerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A trusted issuer."""

    id: Id
    name: _Name
    """The trusted issuer's name."""
    service_slug: _Service | None
    """The slug of the service that gets tokens; null if the trusted issuer is for a management API key."""
    management_key_id: UUID | None
    """The management API key whose permissions the tokens have; null if the trusted issuer is for a service."""
    issuer: _Issuer
    """The issuer, as in the token's `iss`."""
    audience: _Audience
    """The audience, as in the token's `aud`."""
    jwks_uri: _Address | None
    """The URL at which the issuer publishes its keys; null if `jwks` is set."""
    jwks: _Keys | None
    """The issuer's public keys; null if the issuer publishes them."""
    subject_pattern: _Pattern
    """The subject, as in the token's `sub`, with `*` for whole parts."""
    claims: _Claims
    """The claims that the token must have."""
    last_used_at: datetime | None
    """When a workload last got a token, with a precision of 1 minute; null if none ever did."""
    created_at: CreatedAt
    updated_at: UpdatedAt


@endpoint.get(_RULES, caller=_VIEW, keys=True, tags=_TAGS)
async def list_trusted_issuers(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[TrustedIssuerRecord]:
    """List the trusted issuers of an organization

    Return all trusted issuers, the oldest first. Those of management API keys are included only if you can manage integrations.
    """
    return [trusted_issuer_record(rule) for rule in await postern.tenancy.trusted_issuers.list(call.caller)]


@endpoint.post(
    _RULES,
    caller=_MANAGE,
    limit=CREDENTIALS,
    status=201,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def create_trusted_issuer(call: Call[NewTrustedIssuer, None, OrganizationPath, Member], postern: Postern) -> TrustedIssuerRecord:
    """Create a trusted issuer

    A build job or a cluster has signed tokens from its own issuer. With a token that matches, it gets a token at `/auth/token` without a
    secret. For a service, this is the token of `client_credentials`. For a management API key, it has the permissions of the key, and
    expires after 15 minutes.

    The workload can use its token again until it expires, for at most 24 hours. A service or a key can have at most 10 trusted issuers.
    Only a person can create one; for a management API key, only the person whose key it is. If someone else adopts the key, its trusted
    issuers are no longer accepted.
    """
    body, settings = call.body, _settings(call.body)
    key = None if body.management_key_id is None else ManagementKeyId(body.management_key_id)
    rule = await with_proof_if_needed(
        call.request,
        postern,
        lambda proved: postern.tenancy.trusted_issuers.create(
            call.caller, settings, call.actor, service=body.service_slug, key=key, proved=proved
        ),
    )
    return trusted_issuer_record(rule)


@endpoint.get(_RULE, caller=_VIEW, keys=True, tags=_TAGS)
async def get_trusted_issuer(call: Call[None, None, TrustedIssuerPath, Member], postern: Postern) -> TrustedIssuerRecord:
    """Get a trusted issuer

    If the trusted issuer is for a management API key, you need the permission to manage integrations.
    """
    return trusted_issuer_record(await postern.tenancy.trusted_issuers.get(call.caller, TrustedIssuerId(call.path.rule_id)))


@endpoint.patch(_RULE, caller=_MANAGE, limit=CREDENTIALS, refuses=(BadRequest, Conflict), tags=_TAGS)
async def change_trusted_issuer(call: Call[TrustedIssuerPatch, None, TrustedIssuerPath, Member], postern: Postern) -> TrustedIssuerRecord:
    """Change a trusted issuer

    The change applies to the next token. Tokens with the permissions of a management API key that were issued before are rejected from the
    next request on.
    """
    change = _change(call.body)
    rule = await with_proof_if_needed(
        call.request,
        postern,
        lambda proved: postern.tenancy.trusted_issuers.change(
            call.caller, TrustedIssuerId(call.path.rule_id), change, call.actor, proved=proved
        ),
    )
    return trusted_issuer_record(rule)


@endpoint.delete(_RULE, caller=_MANAGE, keys=True, limit=UNLIMITED, status=204, tags=_TAGS)
async def delete_trusted_issuer(call: Call[None, None, TrustedIssuerPath, Member], postern: Postern) -> NoBody:
    """Delete a trusted issuer

    From the next request on, workloads get no more tokens, and tokens with the permissions of a management API key are rejected. Tokens of
    a service stay valid until they expire.
    """
    await postern.tenancy.trusted_issuers.delete(call.caller, TrustedIssuerId(call.path.rule_id), call.actor)
    return NO_BODY


_settings = taken(NewTrustedIssuer, TrustedIssuerSettings, apart=("service_slug", "management_key_id"))
_change = taken(TrustedIssuerPatch, TrustedIssuerChange)
trusted_issuer_record = shown(TrustedIssuer, TrustedIssuerRecord, named={"management_key_id": "key"})
