"""The caller's second factor. A platform owner who impersonates the caller may read its state, but change nothing."""

from collections.abc import Sequence
from typing import Annotated, Self

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.proofs import StepUp
from core.domain.secrets import Secret
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import MessageText, Reason, Success, example
from entrypoints.http.machinery.limits import MFA_CHANGES, MFA_SETUP, MFA_VERIFY


class MfaStatus(msgspec.Struct, frozen=True):
    """The MFA status of the account."""

    enabled: bool
    """Whether sign-in requires a code or a passkey after the password."""
    has_backup_codes: bool
    """Whether unused backup codes are left."""


class MfaSetUp(msgspec.Struct, frozen=True):
    """A secret for an authenticator app."""

    secret: Annotated[str, example("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")]
    """The secret in base32, to enter manually."""
    qr_code_svg: Annotated[str, example('<svg xmlns="http://www.w3.org/2000/svg"></svg>')]
    """The QR code of `qr_code_uri`, as SVG."""
    qr_code_uri: Annotated[str, example("otpauth://totp/Postern:ada@example.org?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Postern")]
    """The secret as an otpauth URI."""


class FirstMfaCode(msgspec.Struct, frozen=True):
    """The first code of the authenticator app."""

    code: Annotated[str, msgspec.Meta(pattern="^[0-9]{6}$", max_length=6, examples=["492039"])]
    """The 6-digit code from the authenticator app."""


class StatedReason(msgspec.Struct, frozen=True):
    """The reason. Clients that cannot send a body with DELETE can send the reason in the query."""

    reason: Annotated[Reason, example("Lost the phone; identity checked by video")] | None = None
    """The reason. The audit log records it."""


class MfaForceDisabled(msgspec.Struct, frozen=True):
    """MFA of the user is off."""

    success: Success
    message: MessageText

    @classmethod
    def done(cls, *, disabled: bool) -> Self:
        return cls(True, "MFA is disabled" if disabled else "MFA was not enabled")


class MfaEnabled(msgspec.Struct, frozen=True):
    """MFA is on."""

    enabled: bool
    """Always true."""
    backup_codes: Annotated[Sequence[str], example(["K7QX-2MWD", "9HFR-T3BN"])]
    """10 backup codes. Each code works once. They are shown only once."""


class MfaDisabled(msgspec.Struct, frozen=True):
    """MFA is off."""

    success: Success
    message: MessageText


class BackupCodes(msgspec.Struct, frozen=True):
    """The new backup codes."""

    backup_codes: Annotated[Sequence[str], example(["K7QX-2MWD", "9HFR-T3BN"])]
    """10 backup codes. Each code works once. They are shown only once."""


@endpoint.get("/api/user/mfa/status", caller=OWN_USER, tags=("mfa",))
async def get_mfa_status(call: Call, postern: Postern) -> MfaStatus:
    """Get your MFA status

    The response also says whether unused backup codes are left.
    """
    status = await postern.identity.mfa.status(call.caller.user)
    return MfaStatus(status.enabled, status.has_backup_codes)


@endpoint.post(
    "/api/user/mfa/setup",
    caller=OWN_USER,
    step_up=StepUp.ACCOUNT,
    limit=(MFA_SETUP, MFA_CHANGES),
    refuses=(BadRequest,),
    tags=("mfa",),
)
async def set_up_mfa(call: Call, postern: Postern) -> MfaSetUp:
    """Create a secret for an authenticator app

    MFA is off until you confirm the secret with a first code. Until then, you can repeat the request: each new secret replaces the previous
    one. Requires a recent sign-in or reauthentication. If your MFA consists of passkeys only, it requires MFA, too.
    """
    identity = postern.identity
    made = await identity.reauthentication.with_app(call.caller, lambda proved: identity.mfa.set_up(call.caller, call.actor, proved=proved))
    return MfaSetUp(made.secret.reveal(), made.qr_code.reveal(), made.uri.reveal())


@endpoint.post("/api/user/mfa/verify", caller=OWN_USER, step_up=StepUp.ACCOUNT, limit=(MFA_VERIFY, MFA_CHANGES), tags=("mfa",))
async def enable_mfa(call: Call[FirstMfaCode], postern: Postern) -> MfaEnabled:
    """Turn on MFA with an authenticator app

    Send a first code of the app. From now on, each sign-in requires a code, and no device is trusted any longer. Requires a recent sign-in
    or reauthentication, as for the secret.
    """
    identity = postern.identity
    codes = await identity.reauthentication.with_app(
        call.caller, lambda proved: identity.mfa.enable(call.caller, call.actor, call.body.code, proved=proved)
    )
    return MfaEnabled(True, _revealed(codes))


@endpoint.post(
    "/api/user/mfa/passkeys",
    caller=OWN_USER,
    step_up=StepUp.ACCOUNT,
    limit=(MFA_SETUP, MFA_CHANGES),
    refuses=(BadRequest,),
    tags=("mfa",),
)
async def enable_mfa_by_passkeys(call: Call, postern: Postern) -> MfaEnabled:
    """Turn on MFA with passkeys

    From now on, sign-in requires one of your passkeys, or a backup code, after the password. A sign-in with a passkey requires nothing
    more. You need a passkey. Requires a recent sign-in or reauthentication. If you already have an authenticator app, you do not need this
    endpoint. Sign-in then already accepts your passkeys in place of a code.
    """
    return MfaEnabled(True, _revealed(await postern.identity.mfa.enable_by_passkeys(call.caller, call.actor)))


@endpoint.delete("/api/user/mfa", caller=OWN_USER, step_up=StepUp.SECOND_FACTOR, limit=(MFA_SETUP, MFA_CHANGES), tags=("mfa",))
async def disable_mfa(call: Call, postern: Postern) -> MfaDisabled:
    """Turn off MFA

    The secret and all backup codes are deleted. Your passkeys stay, and you can still sign in with them. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled. The request can be repeated safely.
    """
    await postern.identity.mfa.disable(call.caller, call.actor)
    return MfaDisabled(True, "MFA is disabled")


@endpoint.post(
    "/api/user/mfa/backup-codes/regenerate",
    caller=OWN_USER,
    step_up=StepUp.SECOND_FACTOR,
    limit=(MFA_SETUP, MFA_CHANGES),
    refuses=(BadRequest,),
    tags=("mfa",),
)
async def renew_backup_codes(call: Call, postern: Postern) -> BackupCodes:
    """Regenerate backup codes

    Returns 10 new backup codes. All earlier codes are revoked. Requires a recent sign-in or reauthentication with MFA.
    """
    return BackupCodes(_revealed(await postern.identity.mfa.renew_backup_codes(call.caller, call.actor)))


def _revealed(codes: Sequence[Secret]) -> Sequence[str]:
    return [code.reveal() for code in codes]
