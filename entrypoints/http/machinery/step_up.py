"""Step-up: sensitive endpoints require a recent authentication, so that a stolen access token is not enough."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from core.domain.identity.proofs import FreshProofNeeded, StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Request

Changed = TypeVar("Changed")


async def require_fresh_proof(request: Request, postern: Postern, asked: StepUp) -> None:
    """Check the session that the caller rule has admitted. Raises `ReauthenticationRequired`.

    An endpoint declares `step_up` beside its caller rule. An endpoint that requires it only in some cases calls this function itself.
    """
    if request.needs_no_proof:
        return
    assert request.caller is not None  # noqa: S101 - for the type checker: a rule that admits sessions sets the caller
    await postern.identity.reauthentication.require(request.caller, asked)


async def with_proof_if_needed(request: Request, postern: Postern, change: Callable[[bool], Awaitable[Changed]]) -> Changed:
    """Runs `change` without a fresh proof, and again with one if it raises `FreshProofNeeded`. Raises `ReauthenticationRequired`."""
    try:
        return await change(False)
    except FreshProofNeeded:
        await require_fresh_proof(request, postern, StepUp.ACCOUNT)
        return await change(True)
