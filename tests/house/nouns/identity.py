"""The nouns of people."""

from typing import Final

from core.domain import identifiers as ids
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Impersonation
from core.domain.identity.devices import Device
from core.domain.identity.mfa import MfaSecret
from core.domain.identity.passkeys import Passkey
from core.domain.identity.privacy import PrivacyRequest
from core.domain.identity.sessions import Session
from core.domain.identity.terms import TermsVersion
from core.domain.identity.upstream.identities import ConnectedIdentity
from tests.house.declaring import Noun

IDENTITY: Final = (
    Noun(
        name="account",
        of=Account,
        id=ids.UserId,
        table="users",
        parts={
            "pictures": "the person's picture",
            "used_usernames": "the user names that nobody gets again",
            "former_addresses": "earlier addresses of the person",
            "held_accounts": "the organization that made the account and may move it",
            "imported_people": "who was brought along once",
        },
        part_ids=(ids.PictureId,),
        at="/api/user",
        is_single=True,
        events=("user.account", "user.registration", "user.email", "user.profile", "user.anonymized", "user.deactivated"),
        page="/ui/profile",
    ),
    Noun(
        name="passkey",
        of=Passkey,
        id=ids.PasskeyId,
        table="passkeys",
        parts={"passkey_challenges": "what an authenticator has to sign"},
        at="/api/user/passkeys",
        events=("security.passkey",),
        page="/ui/passkeys",
        most="MOST_PASSKEYS",
    ),
    Noun(
        name="second factor",
        of=MfaSecret,
        table="mfa_secrets",
        parts={"backup_codes": "its backup codes", "mfa_events": "its log"},
        part_ids=(ids.MfaEventId,),
        at="/api/user/mfa",
        is_single=True,
        events=("security.mfa",),
        page="/ui/second-factor",
    ),
    Noun(
        name="device",
        of=Device,
        id=ids.DeviceId,
        table="devices",
        at="/api/user/devices",
        events=("user.device",),
        page="/ui/devices",
    ),
    Noun(
        name="session",
        of=Session,
        id=ids.SessionId,
        table="sessions",
        parts={
            "refresh_tokens": "what renews it",
            "browser_sessions": "the cookie of one in a browser",
            "bound_keys": "the key that such a cookie is bound to",
        },
        part_ids=(ids.BoundKeyId,),
        at="/api/user/sessions",
        events=("security.session", "security.sessions"),
        page="/ui/sessions",
    ),
    Noun(
        name="connected identity",
        of=ConnectedIdentity,
        id=ids.IdentityId,
        table="identities",
        parts={"identity_grants": "the provider's tokens, with which an application acts there"},
        part_ids=(ids.IdentityGrantId,),
        at="/api/user/identities",
        events=("user.identity",),
        page="/ui/settings/connections",
        told_as=("connected identity", "connected identities", "identities"),
    ),
    Noun(
        name="terms",
        of=TermsVersion,
        id=ids.TermsId,
        table="terms",
        parts={"terms_acceptances": "who has accepted which version"},
        at="/api/organizations/{org_slug}/terms",
        is_single=True,
        events=("terms",),
        page="/ui/o/{org_slug}/settings/terms",
        most="MOST_VERSIONS",
    ),
    Noun(
        name="impersonation",
        of=Impersonation,
        id=ids.ImpersonationId,
        table="impersonations",
        at="/api/platform/impersonate/{user_id}",
        is_single=True,
        events=("security.impersonation",),
        page="/ui/sessions",
    ),
    Noun(
        name="privacy request",
        of=PrivacyRequest,
        id=ids.PrivacyRequestId,
        table="privacy_requests",
        at="/api/privacy/requests",
        events=("user.anonymized", "user.exported"),
        told_as=("forget", "erasure"),
    ),
)
