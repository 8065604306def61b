"""The caller's second factor. Whoever acts in their name may look, and change nothing."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.secrets import Secret
from entrypoints.bootstrap import Services
from entrypoints.http.callers import OWN_USER, USER
from entrypoints.http.calls import Call
from entrypoints.http.endpoints import endpoint
from entrypoints.http.limits import MFA_CHANGES, MFA_SETUP, MFA_VERIFY


class MfaStatus(msgspec.Struct, frozen=True):
    enabled: bool
    has_backup_codes: bool


class MfaSetUp(msgspec.Struct, frozen=True):
    """`secret` is base32; `qr_code_svg` shows `qr_code_uri`, an otpauth URI."""

    secret: str
    qr_code_svg: str
    qr_code_uri: str


class FirstMfaCode(msgspec.Struct, frozen=True):
    code: Annotated[str, msgspec.Meta(pattern="^[0-9]{6}$", max_length=6)]


class MfaEnabled(msgspec.Struct, frozen=True):
    """The backup codes are shown this once."""

    enabled: bool
    backup_codes: Sequence[str]


class MfaDisabled(msgspec.Struct, frozen=True):
    success: bool
    message: str


class BackupCodes(msgspec.Struct, frozen=True):
    """They are shown this once."""

    backup_codes: Sequence[str]


@endpoint.get("/api/user/mfa/status", caller=USER, tags=("mfa",))
async def mfa_status(call: Call, services: Services) -> MfaStatus:
    """Whether the second factor is enabled"""
    status = await services.mfa.status(call.caller.user)
    return MfaStatus(status.enabled, status.has_backup_codes)


@endpoint.post("/api/user/mfa/setup", caller=OWN_USER, limit=(MFA_SETUP, MFA_CHANGES), refuses=(BadRequest,), tags=("mfa",))
async def set_up_mfa(call: Call, services: Services) -> MfaSetUp:
    """A new secret for the authenticator

    It is enabled by the first code. Until then it may be asked for again, which replaces it.
    """
    made = await services.mfa.set_up(call.caller, call.actor)
    return MfaSetUp(made.secret.reveal(), made.qr_code.reveal(), made.uri.reveal())


@endpoint.post("/api/user/mfa/verify", caller=OWN_USER, limit=(MFA_VERIFY, MFA_CHANGES), tags=("mfa",))
async def enable_mfa(call: Call[FirstMfaCode], services: Services) -> MfaEnabled:
    """Enable the second factor with a first code

    From then on every sign-in asks for a code. Trusted devices are trusted no more.
    """
    return MfaEnabled(True, _revealed(await services.mfa.enable(call.caller, call.actor, call.body.code)))


@endpoint.delete("/api/user/mfa", caller=OWN_USER, limit=(MFA_SETUP, MFA_CHANGES), tags=("mfa",))
async def disable_mfa(call: Call, services: Services) -> MfaDisabled:
    """Disable the second factor

    Its secret and all backup codes are deleted. May be repeated.
    """
    await services.mfa.disable(call.caller, call.actor)
    return MfaDisabled(True, "MFA is disabled")


@endpoint.post(
    "/api/user/mfa/backup-codes/regenerate", caller=OWN_USER, limit=(MFA_SETUP, MFA_CHANGES), refuses=(BadRequest,), tags=("mfa",)
)
async def renew_backup_codes(call: Call, services: Services) -> BackupCodes:
    """Ten new backup codes

    All earlier ones end with it.
    """
    return BackupCodes(_revealed(await services.mfa.renew_backup_codes(call.caller, call.actor)))


def _revealed(codes: Sequence[Secret]) -> Sequence[str]:
    return [code.reveal() for code in codes]
