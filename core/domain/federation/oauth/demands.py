"""What scopes of APIs ask of the sign-in (RFC 9470): a second factor, or a sign-in that is not too long ago. An application that asks for
such a scope leads the person to the proof, as if it had sent `acr_values` and `max_age` itself.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.federation.oauth.authorizations import AuthorizationRequest
from core.domain.identity.flows import Wanted
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import TWO_FACTORS, context_class
from core.frozen import Frozen, replace


class SignInDemand(Frozen):
    second_factor: bool = False
    max_age: int | None = None
    """In seconds: the sign-in may be at most this old."""

    @property
    def asks(self) -> bool:
        return self.second_factor or self.max_age is not None

    def is_met(self, methods: tuple[str, ...], proved: Proved, now: datetime) -> bool:
        """Whether a session with these proofs needs no further sign-in."""
        if self.second_factor and context_class(methods) != TWO_FACTORS:
            return False
        shown = proved.shown_at
        return self.max_age is None or (shown is not None and now - shown <= timedelta(seconds=self.max_age))

    def is_asked_in(self, wanted: Wanted) -> bool:
        """Whether a flow leads to a sign-in that meets this. Such a flow begins once for a demand, so nobody goes in a circle."""
        factors = wanted.second_factor or not self.second_factor
        return factors and (self.max_age is None or (wanted.max_age is not None and wanted.max_age <= self.max_age))


NO_DEMAND: Final = SignInDemand()


def scope_demand(acr_values: Sequence[str], max_age: int | None) -> SignInDemand:
    """What one scope asks of the sign-in."""
    return SignInDemand(TWO_FACTORS in acr_values, max_age)


def strongest(demands: Iterable[SignInDemand]) -> SignInDemand:
    """A demand that meets each of these."""
    every = list(demands)
    ages = [one.max_age for one in every if one.max_age is not None]
    return SignInDemand(any(one.second_factor for one in every), min(ages, default=None))


def demanding(request: AuthorizationRequest, demand: SignInDemand) -> AuthorizationRequest:
    """The request, as if the application had asked for the demand itself. What it asks for beyond stays."""
    ages = [age for age in (request.max_age, demand.max_age) if age is not None]
    acr_values = (TWO_FACTORS,) if demand.second_factor else request.acr_values
    return replace(request, acr_values=acr_values, max_age=min(ages, default=None))
