"""Step-up: endpoints for which a stolen access token must not be enough ask for a fresh proof as well.

An endpoint declares it beside its caller rule, as `step_up`; one that needs it only in some cases calls this itself.
"""

from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Request


async def require_fresh_proof(request: Request, postern: Postern, asked: StepUp) -> None:
    """Runs after the caller rule, on the session that the rule admitted. Raises `ReauthenticationRequired`."""
    assert request.caller is not None  # noqa: S101 - for the type checker: a rule that lets a session in says whose
    await postern.identity.reauthentication.require(request.caller, asked)
