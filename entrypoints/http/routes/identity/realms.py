"""The sign-in rules of a mail domain: where its people sign in."""

from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.realms import AuthMethod
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import EmailText, email_field, example
from entrypoints.http.machinery.limits import AUTH


class EmailLookup(msgspec.Struct, frozen=True):
    """An e-mail address."""

    email: EmailText
    """The address that somebody wants to sign in with."""


class DomainSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """How the people of a domain sign in. Two addresses of a domain get the same answer, whether or not they have accounts."""

    connection_id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | None
    """The id of the organization's own provider that the domain's people use; null if they use another provider, or none."""
    provider_name: Annotated[str, example("Acme single sign-on")] | None
    """The name of the provider; null if there is none."""
    domain_verified: Annotated[bool, example(True)]
    """Whether an organization has proved that it owns the domain."""
    auth_method: Annotated[AuthMethod, example("upstream")]
    """`upstream`: at the organization's own provider, by `/auth/{connection_id}`. `oauth`: at `codehost`, `websuite` or `officesuite`, by
    `/auth/{provider_name}`. `password`: at this installation.
    """


@endpoint.post("/api/auth/lookup-email", caller=ANYONE, limit=AUTH, refuses=(BadRequest,), tags=("sign-in",))
async def look_up_email(call: Call[EmailLookup], postern: Postern) -> DomainSignIn:
    """Look up where somebody signs in, by the domain of their address

    Only the domain decides, so the answer says nothing about accounts.
    """
    way = await postern.identity.realms.way_in(email_field(call.body.email, postern.foundation.email_syntax))
    realm = way.realm
    led = realm is not None and way.leads_to_provider
    return DomainSignIn(
        connection_id=realm.own_provider if realm is not None and led else None,
        provider_name=(way.provider_name or None) if led else None,
        domain_verified=realm is not None,
        auth_method=way.method,
    )
