"""Defines which event revokes which kind of credential or grant, in one table."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Final

from core.frozen import Frozen, replace


class CredentialKind(StrEnum):
    """A kind of credential or grant: its holder can sign in somewhere, or may do something. `OWED` states for each kind where it is listed
    and revoked, who is notified when one is created, and where a user's export has it.
    """

    SESSION = "session"
    """On our own pages, in another browser than the one in which a cause comes about."""
    APPLICATION_SESSION = "application's session"
    """And its access token: both hang on the browser's session."""
    API_SESSION = "application's session at an API"
    REFRESH_TOKEN = "refresh token"  # noqa: S105 - a kind
    """That outlives the browser's session (`offline_access`)."""
    AGENT_SESSION = "agent's session"
    EXCHANGED = "exchanged session"
    ASSERTED = "asserted session"
    """Of an identity assertion."""
    IMPERSONATION = "impersonation"
    PASSWORD = "password"  # noqa: S105 - a kind
    PASSKEY = "passkey"
    SECOND_FACTOR = "second factor"
    BACKUP_CODE = "backup code"
    DEVICE = "remembered device"
    OWN_IDENTITY = "identity at the organization's provider"
    IDENTITY = "connected identity"
    PROVIDER_TOKEN = "provider's token"  # noqa: S105 - a kind
    """With which an application acts for the person at a provider."""
    CONSENT = "consent"
    API_CONSENT = "consent to an API"
    AGENT_GRANT = "agent's grant"
    USER_KEY = "key of a user"
    MAILED_LINK = "mailed link"
    """Or code."""
    UNFINISHED = "unfinished sign-in"
    """A code that no application has redeemed, an approved device, a second factor that is awaited, a flow, a request from afar that waits
    or whose yes no application has fetched.
    """
    API_KEY = "API key"
    CLIENT_SECRET = "client secret"  # noqa: S105 - a kind
    DIRECTORY_TOKEN = "directory's token"  # noqa: S105 - a kind
    TRUSTED_ISSUER = "trusted issuer"
    """Of an application: what it signs stands in place of a secret."""
    MANAGEMENT_KEY = "management key"
    WORKLOAD_TOKEN = "workload's token"  # noqa: S105 - a kind
    """With the rights of a management key, for the token of a trusted issuer."""
    INVITATION = "invitation"
    SETUP_LINK = "set-up link"
    CONNECTION_TEST = "test of a connection"
    """Whoever has its address may let the organization's password be tried, and somebody sign in at the provider."""
    LOCK_LINK = "link that locks the account"
    """In a mail that asks "Was this not you?" (0196). No sealed link has a row: `SEALED` below names all of them."""
    RULES_LINK = "way back of an owner"
    """Lifts the rules for risk of their organization (0201)."""
    INSTALLATION_RULES_LINK = "way back of a platform owner"
    """Lifts those of the installation, without a sign-in."""


class Cause(Enum):
    """The values tell what happens. The user has created one of each kind before. A cell of `ENDINGS` is `ENDS`; or `TICKED`: the page
    lists it, and it stays only if the user ticks it; or `Stays`, with the reason. `tests/security/endings` creates one of each kind through
    the product, triggers each cause, and compares.
    """

    FIRST_PROOF_INSIDE = "somebody who is signed in proves an address for which a provider had vouched"
    FIRST_PROOF_OUTSIDE = "the reader of the mailbox proves it anywhere else"
    ANOTHER_PROVIDERS_WORD = "another provider says first whose the address is"
    HAND_OVER = "the account's maker moves it to another address"
    FORGOTTEN_PASSWORD = "the reader of the mailbox chooses a new password"  # noqa: S105 - a cause
    CHANGED_PASSWORD = "the person changes the password"  # noqa: S105 - a cause
    LOCKED = "the person locks the account"
    LOCKED_OUT_BY_ORGANIZATION = "an organization that does not decide about the account locks it"
    DEACTIVATED_BY_DIRECTORY = "the directory that made the account deactivates the person"
    SHUT_OUT_BY_ORGANIZATION = "the organization ends the person's sessions"
    DEACTIVATED_BY_PLATFORM = "the platform deactivates the account"
    LEFT = "the person says that they do not belong to the organization"
    REMOVED = "the organization removes the person"
    LET_GO = "the application removes its user"
    ROLE_LOST = "the person loses the role of administrator"
    SECOND_FACTOR_REMOVED = "the person turns the second factor off"
    APPLICATION_ENDED = "the organization deletes the applications"
    API_SUSPENDED = "the platform takes its approval of the API back"
    API_ENDED = "the organization deletes the API"
    CONNECTION_OFF = "the organization turns its provider off"
    CONNECTION_ENDED = "the organization deletes its provider"
    ORGANIZATION_SUSPENDED = "the platform suspends the organization"
    ORGANIZATION_ENDED = "the owner deletes the organization"
    CONSENT_NARROWED = "the person allows the applications less than before"
    CONSENT_TAKEN_BACK = "the person takes the applications' access away"
    ACCOUNT_DELETED = "the account is deleted"


class Simply(StrEnum):
    ENDS = "ends"
    TICKED = "is listed, and kept by a tick"


class Stays(Frozen):
    """A credential that stays. It may open nothing for a while (`opens=False`): it lets nobody in before what suspended it is undone."""

    because: str
    opens: bool = True
    """Whether somebody gets in by it meanwhile."""


Ending = Simply | Stays
ENDS: Final = Simply.ENDS
TICKED: Final = Simply.TICKED

_IN_BROWSERS: Final = (CredentialKind.SESSION, CredentialKind.APPLICATION_SESSION, CredentialKind.API_SESSION)
_ON_THEIR_OWN: Final = (CredentialKind.REFRESH_TOKEN, CredentialKind.AGENT_SESSION, CredentialKind.EXCHANGED, CredentialKind.ASSERTED)
_AT_APPLICATIONS: Final = (CredentialKind.APPLICATION_SESSION, CredentialKind.API_SESSION, *_ON_THEIR_OWN)
_SESSIONS: Final = (*_IN_BROWSERS, *_ON_THEIR_OWN, CredentialKind.IMPERSONATION)
_FACTORS: Final = (CredentialKind.PASSKEY, CredentialKind.SECOND_FACTOR, CredentialKind.BACKUP_CODE)
_IDENTITIES: Final = (CredentialKind.OWN_IDENTITY, CredentialKind.IDENTITY)
_WAYS_IN: Final = (CredentialKind.PASSWORD, *_FACTORS, *_IDENTITIES)
_CONSENTS: Final = (CredentialKind.CONSENT, CredentialKind.API_CONSENT, CredentialKind.AGENT_GRANT)
_GRANTS: Final = (CredentialKind.PROVIDER_TOKEN, *_CONSENTS)
_UNDER_WAY: Final = (CredentialKind.MAILED_LINK, CredentialKind.UNFINISHED)
# Of the organization's applications and directory, whoever made them.
_MACHINES: Final = (CredentialKind.API_KEY, CredentialKind.CLIENT_SECRET, CredentialKind.DIRECTORY_TOKEN, CredentialKind.TRUSTED_ISSUER)
# They do what the person may do at that moment.
_AS_THE_PERSON: Final = (CredentialKind.MANAGEMENT_KEY, CredentialKind.WORKLOAD_TOKEN, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)
_OF_THE_PERSON: Final = (*_SESSIONS, CredentialKind.DEVICE, *_WAYS_IN, *_GRANTS, CredentialKind.USER_KEY, *_UNDER_WAY)
_OF_THE_ORGANIZATION: Final = (*_MACHINES, *_AS_THE_PERSON)
_WAYS_BACK: Final = (CredentialKind.RULES_LINK, CredentialKind.INSTALLATION_RULES_LINK)
_SEALED_LINKS: Final = (CredentialKind.LOCK_LINK, *_WAYS_BACK)

_ORGANIZATIONS: Final = Stays("it is the organization's, whose pages list it; its programs go on, whoever made it")
_AS_MAKER: Final = Stays("it may do what its maker may, and no more; the organization lists it, and ends it")
_MAKER_GONE: Final = Stays("it may do what its maker may at that moment, which is nothing", opens=False)
_PERSONS: Final = Stays("it is the person's, and says nothing about this")
_ACCOUNT_SHUT: Final = Stays("the account lets nobody in, and may come back", opens=False)
_LOCKED: Final = Stays("nobody gets in before a new password; of the last 30 days, only what the person keeps then comes back", opens=False)
_MAKER_LOCKED: Final = Stays("it may do what its maker may at that moment, which is nothing while the account is locked", opens=False)
_STARTERS: Final = Stays("each step of it asks for its starter's session and right", opens=False)
_TRIED: Final = Stays("its starter may try the provider as before; it lasts for minutes")
_LOCKS: Final = Stays(
    "it lets nobody in: whoever reads the mailbox locks the account with it, also after somebody else has changed a way in"
)
_OWNER_ASKED: Final = Stays("it lets nobody in, and asks for the owner's own session and office at that moment")
_OFFICE_ASKED: Final = Stays("its reader is asked for the office at that moment, and has lost it", opens=False)
_PROVED: Final = Stays("nobody is in this office who has not proved their address before", opens=False)
_SEEN: Final = Stays("the person sees it on a page of the account, and ends it there; it does not know the password")
_GATED: Final = Stays("each request asks whether it is open, and it may come back", opens=False)


def _cells(
    ends: Sequence[CredentialKind] = (),
    *others: tuple[Ending, Sequence[CredentialKind]],
    ticked: Sequence[CredentialKind] = (),
    rest: Ending | None = None,
) -> Mapping[CredentialKind, Ending]:
    """A line of the table. `rest` is said of all kinds that the line does not name."""
    cells: dict[CredentialKind, Ending] = {}
    for ending, kinds in ((ENDS, ends), (TICKED, ticked), *others):
        for kind in kinds:
            if kind in cells:
                raise TypeError(f"{kind} is said twice")
            cells[kind] = ending
    # A test goes on where its starter's session does, unless the line says more.
    starters = _STARTERS if cells.get(CredentialKind.SESSION, rest) is ENDS else _TRIED
    cells.setdefault(CredentialKind.CONNECTION_TEST, starters)
    return cells if rest is None else {**dict.fromkeys(CredentialKind, rest), **cells}


# What an account leaves that goes to somebody else, or was never proved to be anybody's.
_EVERYTHING: Final = _cells(
    _OF_THE_PERSON,
    (_ORGANIZATIONS, _MACHINES),
    (_AS_MAKER, _AS_THE_PERSON),
    (_LOCKS, (CredentialKind.LOCK_LINK,)),
    (_OWNER_ASKED, (CredentialKind.RULES_LINK,)),
    (_PROVED, (CredentialKind.INSTALLATION_RULES_LINK,)),
)

ENDINGS: Final[Mapping[Cause, Mapping[CredentialKind, Ending]]] = {
    # 0108.
    Cause.FIRST_PROOF_INSIDE: _cells(
        (*_SESSIONS, CredentialKind.DEVICE, *_CONSENTS, *_UNDER_WAY),
        (Stays("the person came by it to the browser that proves the address"), (CredentialKind.OWN_IDENTITY,)),
        (_ORGANIZATIONS, _MACHINES),
        (_AS_MAKER, _AS_THE_PERSON),
        (_LOCKS, (CredentialKind.LOCK_LINK,)),
        (_OWNER_ASKED, (CredentialKind.RULES_LINK,)),
        (_PROVED, (CredentialKind.INSTALLATION_RULES_LINK,)),
        # The token of a provider goes with the identity there.
        ticked=(CredentialKind.PASSWORD, *_FACTORS, CredentialKind.IDENTITY, CredentialKind.PROVIDER_TOKEN, CredentialKind.USER_KEY),
    ),
    Cause.FIRST_PROOF_OUTSIDE: _EVERYTHING,
    Cause.ANOTHER_PROVIDERS_WORD: _EVERYTHING,
    # 0071. A directory moves nobody who may do more than a member, so the rights of the account were taken before.
    Cause.HAND_OVER: _cells(
        (*_OF_THE_PERSON, CredentialKind.WORKLOAD_TOKEN, *_SEALED_LINKS),
        (_ORGANIZATIONS, _MACHINES),
        (_MAKER_GONE, (CredentialKind.MANAGEMENT_KEY, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)),
    ),
    # 0008, 0025.
    Cause.FORGOTTEN_PASSWORD: _cells(
        (*_SESSIONS, CredentialKind.DEVICE, CredentialKind.PASSWORD, *_UNDER_WAY, *_WAYS_BACK),
        (_LOCKS, (CredentialKind.LOCK_LINK,)),
        (Stays("whoever reads the mailbox must not get past it"), _FACTORS),
        (_SEEN, (*_IDENTITIES, *_GRANTS)),
        (_ORGANIZATIONS, _MACHINES),
        (_AS_MAKER, _AS_THE_PERSON),
        ticked=(CredentialKind.USER_KEY,),
    ),
    Cause.CHANGED_PASSWORD: _cells(
        (*_SESSIONS, CredentialKind.DEVICE, CredentialKind.PASSWORD, *_UNDER_WAY, *_WAYS_BACK),
        (_LOCKS, (CredentialKind.LOCK_LINK,)),
        (_SEEN, (*_FACTORS, *_IDENTITIES, *_GRANTS, CredentialKind.USER_KEY)),
        (_ORGANIZATIONS, _MACHINES),
        (_AS_MAKER, _AS_THE_PERSON),
    ),
    # 0196. The platform and the maker lock in the same way.
    Cause.LOCKED: _cells(
        (
            *(*_SESSIONS, CredentialKind.DEVICE, CredentialKind.PASSWORD, *_CONSENTS, CredentialKind.USER_KEY, *_UNDER_WAY),
            CredentialKind.WORKLOAD_TOKEN,
            *_SEALED_LINKS,
        ),
        (_LOCKED, (*_FACTORS, *_IDENTITIES, CredentialKind.PROVIDER_TOKEN)),
        (_ORGANIZATIONS, _MACHINES),
        (_MAKER_LOCKED, (CredentialKind.MANAGEMENT_KEY, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)),
    ),
    # 0057, 0107. The membership ends, and what hangs on it.
    Cause.DEACTIVATED_BY_DIRECTORY: _cells(
        (*_SESSIONS, CredentialKind.DEVICE, CredentialKind.USER_KEY, *_UNDER_WAY, CredentialKind.WORKLOAD_TOKEN),
        (_ACCOUNT_SHUT, (*_WAYS_IN, *_GRANTS, CredentialKind.LOCK_LINK)),
        # A directory deactivates nobody who may do more than a member.
        (_OFFICE_ASKED, _WAYS_BACK),
        (_ORGANIZATIONS, _MACHINES),
        (_MAKER_GONE, (CredentialKind.MANAGEMENT_KEY, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)),
    ),
    Cause.SHUT_OUT_BY_ORGANIZATION: _cells(
        (*_AT_APPLICATIONS, CredentialKind.UNFINISHED),
        (Stays("each key of a user has its own end, in the lists of the application and the person"), (CredentialKind.USER_KEY,)),
        (_ORGANIZATIONS, _MACHINES),
        (_AS_MAKER, _AS_THE_PERSON),
        rest=Stays("it is not the organization's to end: the person may use the account elsewhere"),
    ),
    # 0196. Somebody else may be in the account, so keys end, too.
    Cause.LOCKED_OUT_BY_ORGANIZATION: _cells(
        (*_AT_APPLICATIONS, CredentialKind.UNFINISHED, CredentialKind.USER_KEY),
        (_ORGANIZATIONS, _MACHINES),
        (_AS_MAKER, _AS_THE_PERSON),
        rest=Stays("it is not the organization's to end: the person may use the account elsewhere"),
    ),
    # 0071.
    Cause.DEACTIVATED_BY_PLATFORM: _cells(
        (*_SESSIONS, CredentialKind.DEVICE, *_UNDER_WAY, CredentialKind.WORKLOAD_TOKEN),
        (_ACCOUNT_SHUT, (*_WAYS_IN, *_GRANTS, CredentialKind.USER_KEY, *_SEALED_LINKS)),
        (_ORGANIZATIONS, _MACHINES),
        (_MAKER_GONE, (CredentialKind.MANAGEMENT_KEY, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)),
    ),
    **dict.fromkeys(
        # 0012, 0025, 0082, 0159. At applications that admit members alone; others keep their users.
        (Cause.LEFT, Cause.REMOVED),
        _cells(
            (*_AT_APPLICATIONS, CredentialKind.UNFINISHED, CredentialKind.USER_KEY, CredentialKind.WORKLOAD_TOKEN),
            (Stays("it says nothing without a session there, and the person may come back"), _GRANTS),
            (_ORGANIZATIONS, _MACHINES),
            (_MAKER_GONE, (CredentialKind.MANAGEMENT_KEY, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)),
            (_STARTERS, (CredentialKind.CONNECTION_TEST,)),
            (_OFFICE_ASKED, (CredentialKind.RULES_LINK,)),
            rest=Stays("the account is the person's, and goes on without the organization"),
        ),
    ),
    Cause.LET_GO: _cells(
        (
            *(kind for kind in _AT_APPLICATIONS if kind is not CredentialKind.AGENT_SESSION),
            *(CredentialKind.UNFINISHED, CredentialKind.PROVIDER_TOKEN, CredentialKind.USER_KEY),
        ),
        (
            Stays("it is the person's word, not the application's: it opens nothing without a session"),
            (CredentialKind.CONSENT, CredentialKind.API_CONSENT),
        ),
        (Stays("it is another application's"), (CredentialKind.AGENT_SESSION, CredentialKind.AGENT_GRANT)),
        (_ORGANIZATIONS, _MACHINES),
        (_AS_MAKER, _AS_THE_PERSON),
        rest=Stays("the account is the person's, and goes on without the application"),
    ),
    # 0012, 0014, 0082, 0090: the rights are asked at each use.
    Cause.ROLE_LOST: _cells(
        (CredentialKind.WORKLOAD_TOKEN,),
        (_ORGANIZATIONS, _MACHINES),
        (_MAKER_GONE, (CredentialKind.MANAGEMENT_KEY, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)),
        (_STARTERS, (CredentialKind.CONNECTION_TEST,)),
        (_OFFICE_ASKED, (CredentialKind.RULES_LINK,)),
        rest=Stays("each request asks what the person may do at that moment"),
    ),
    # 0026.
    Cause.SECOND_FACTOR_REMOVED: _cells(
        (CredentialKind.SECOND_FACTOR, CredentialKind.BACKUP_CODE, CredentialKind.DEVICE),
        (_ORGANIZATIONS, _MACHINES),
        (_AS_MAKER, _AS_THE_PERSON),
        rest=Stays("the person has just proved who they are, by the factor; an organization that wants one asks at each request"),
    ),
    Cause.APPLICATION_ENDED: _cells(
        (
            *_AT_APPLICATIONS,
            *_GRANTS,
            CredentialKind.USER_KEY,
            CredentialKind.UNFINISHED,
            CredentialKind.API_KEY,
            CredentialKind.CLIENT_SECRET,
            CredentialKind.TRUSTED_ISSUER,
        ),
        rest=Stays("it is not the application's"),
    ),
    # 0149, 0152.
    **dict.fromkeys(
        (Cause.API_SUSPENDED, Cause.API_ENDED),
        _cells(
            (),
            (_GATED, (CredentialKind.API_SESSION, CredentialKind.AGENT_SESSION, CredentialKind.EXCHANGED, CredentialKind.ASSERTED)),
            (
                Stays("it is about this API alone: no other ever gets its identifier"),
                (CredentialKind.API_CONSENT, CredentialKind.AGENT_GRANT),
            ),
            rest=Stays("it does not need the API"),
        ),
    ),
    # 0158. The former says that the organization's own word about its people counts no more; who they are, it has said.
    Cause.CONNECTION_OFF: _cells(
        (CredentialKind.ASSERTED,),
        (Stays("people find it again when the provider is turned on"), (CredentialKind.OWN_IDENTITY,)),
        rest=Stays("the person has come; the organization ends sessions by itself, and people at their other ways in go on"),
    ),
    Cause.CONNECTION_ENDED: _cells(
        (CredentialKind.ASSERTED, CredentialKind.OWN_IDENTITY, CredentialKind.CONNECTION_TEST),
        rest=Stays("the person has come; the organization ends sessions by itself, and people at their other ways in go on"),
    ),
    Cause.ORGANIZATION_SUSPENDED: _cells(
        (CredentialKind.WORKLOAD_TOKEN,),
        (
            _GATED,
            (
                *_AT_APPLICATIONS,
                CredentialKind.UNFINISHED,
                CredentialKind.USER_KEY,
                *_MACHINES,
                CredentialKind.MANAGEMENT_KEY,
                CredentialKind.INVITATION,
                CredentialKind.SETUP_LINK,
                CredentialKind.CONNECTION_TEST,
            ),
        ),
        rest=_PERSONS,
    ),
    Cause.ORGANIZATION_ENDED: _cells(
        (
            *_AT_APPLICATIONS,
            *_GRANTS,
            CredentialKind.OWN_IDENTITY,
            CredentialKind.USER_KEY,
            CredentialKind.UNFINISHED,
            *_OF_THE_ORGANIZATION,
            CredentialKind.CONNECTION_TEST,
            CredentialKind.RULES_LINK,
        ),
        rest=_PERSONS,
    ),
    # 0152, 0160.
    Cause.CONSENT_NARROWED: _cells(
        (),
        (Stays("it is what the newest answer says"), _CONSENTS),
        (Stays("its scopes are those of the newest answer, from the next refresh", opens=False), (CredentialKind.AGENT_SESSION,)),
        rest=Stays("the application may still do what the newest answer says"),
    ),
    Cause.CONSENT_TAKEN_BACK: _cells(
        (*_AT_APPLICATIONS, *_CONSENTS, CredentialKind.UNFINISHED),
        (
            Stays("it goes with the identity at the provider, and says nothing without a session at the application"),
            (CredentialKind.PROVIDER_TOKEN,),
        ),
        (Stays("the person makes and ends it on a page of its own; the consent is about sign-ins"), (CredentialKind.USER_KEY,)),
        rest=Stays("it is not the applications'"),
    ),
    Cause.ACCOUNT_DELETED: _cells(
        (*_OF_THE_PERSON, CredentialKind.WORKLOAD_TOKEN, *_SEALED_LINKS),
        (_ORGANIZATIONS, _MACHINES),
        (_MAKER_GONE, (CredentialKind.MANAGEMENT_KEY, CredentialKind.INVITATION, CredentialKind.SETUP_LINK)),
    ),
}


def unsaid() -> Iterator[str]:
    """The cells that nobody has said."""
    return (f"{kind} by {cause.name}" for cause in Cause for kind in CredentialKind if kind not in ENDINGS.get(cause, {}))


class Because(Frozen):
    """Why something that a kind owes is not there."""

    text: str


class Owed(Frozen, kw_only=True):
    """What a kind owes. `page` is one of the account, or of the console where the organization holds the thing. `mails` are the templates
    of the mails that tell the person whenever one is made. `exported` is the part of a person's export (`privacy.Export`).
    """

    page: str | Because
    mails: tuple[str, ...] | Because
    exported: str | Because


_JUST_CAME: Final = Because("the person has just signed in there; a device that was not known has its mail (`new_device`)")
_JUST_ALLOWED: Final = Because("the person has just said yes on our page, which names it (0160)")
_PAGES_TELL: Final = Because("the organization holds it: its page, the audit log and its events name whoever made it")
_ORGANIZATIONS_DATA: Final = Because("it is the organization's; the audit log has the act")
_SECRET: Final = Because("it is a secret, or a digest of one")
_IN_LISTS: Final = Because("the person's own list has it")
_OF_MINUTES: Final = Because("it lives for minutes")
_NO_ROW: Final = Because("nothing of it is kept: the key ring seals what it is bound to")
_IN_THE_MAIL: Final = Because("it lies in the person's mailbox, and what it has done is an entry of the log")
_SESSION: Final = Owed(page="/ui/sessions", mails=_JUST_CAME, exported="login_events")
_CONSENT: Final = Owed(page="/ui/applications", mails=_JUST_ALLOWED, exported="consents")
_FACTOR: Final = Owed(page="/ui/second-factor", mails=("mfa_enabled",), exported="mfa_events")
_IDENTITY: Final = Owed(page="/ui/settings/connections", mails=("identity_linked",), exported="identities")
_APPLICATION: Final = "/ui/o/{org_slug}/applications/{service_slug}"

OWED: Final[Mapping[CredentialKind, Owed]] = {
    CredentialKind.SESSION: replace(_SESSION, mails=("new_device", "unusual_sign_in")),
    CredentialKind.APPLICATION_SESSION: _SESSION,
    CredentialKind.API_SESSION: _SESSION,
    CredentialKind.REFRESH_TOKEN: _SESSION,
    CredentialKind.AGENT_SESSION: _CONSENT,
    CredentialKind.EXCHANGED: Owed(
        page=Because("a busy service opens many; it ends with the session at the application, which has its page"),
        mails=Because("the organization of the API has named the service, and the audit log has the first"),
        exported=_OF_MINUTES,
    ),
    CredentialKind.ASSERTED: Owed(
        page="/ui/sessions",
        mails=Because("the organization's provider says so each time; the audit log has each"),
        exported=_OF_MINUTES,
    ),
    CredentialKind.IMPERSONATION: Owed(
        page="/ui/sessions", mails=Because("it is no sign-in of the person (0011); the page says that it is one"), exported=_IN_LISTS
    ),
    CredentialKind.PASSWORD: Owed(page="/ui/password", mails=("password_set", "password_changed"), exported=_SECRET),
    CredentialKind.PASSKEY: Owed(page="/ui/passkeys", mails=("passkey_added", "passkey_copied"), exported="passkeys"),
    CredentialKind.SECOND_FACTOR: _FACTOR,
    CredentialKind.BACKUP_CODE: replace(_FACTOR, mails=("mfa_enabled", "backup_codes_renewed")),
    CredentialKind.DEVICE: Owed(
        page="/ui/devices",
        mails=Because("the person ticks it at a sign-in that passes the second factor; a device that was not known has `new_device`"),
        exported="devices",
    ),
    CredentialKind.OWN_IDENTITY: _IDENTITY,
    CredentialKind.IDENTITY: _IDENTITY,
    CredentialKind.PROVIDER_TOKEN: Owed(
        page="/ui/settings/connections", mails=Because("the provider has asked the person, and tells them"), exported=_SECRET
    ),
    CredentialKind.CONSENT: _CONSENT,
    CredentialKind.API_CONSENT: _CONSENT,
    CredentialKind.AGENT_GRANT: _CONSENT,
    CredentialKind.USER_KEY: Owed(page="/ui/applications", mails=("user_key_made",), exported="user_keys"),
    CredentialKind.MAILED_LINK: Owed(
        page=Because("it lies in the person's mailbox; it lives for minutes or days, and ends with each change of a way in"),
        mails=("reset", "set_password", "verification", "sign_in_link", "email_changed_new", "proof_code"),
        exported=_OF_MINUTES,
    ),
    CredentialKind.UNFINISHED: Owed(
        page=Because("it lives for minutes, and ends with the browser's session; requests from afar wait on `/ui/requests`"),
        mails=Because("it becomes a session, which tells"),
        exported=_OF_MINUTES,
    ),
    CredentialKind.API_KEY: Owed(page=f"{_APPLICATION}/api-keys", mails=_PAGES_TELL, exported=_ORGANIZATIONS_DATA),
    CredentialKind.CLIENT_SECRET: Owed(page=f"{_APPLICATION}/secrets", mails=_PAGES_TELL, exported=_ORGANIZATIONS_DATA),
    CredentialKind.DIRECTORY_TOKEN: Owed(page="/ui/o/{org_slug}/directories/scim", mails=_PAGES_TELL, exported=_ORGANIZATIONS_DATA),
    CredentialKind.TRUSTED_ISSUER: Owed(page="/ui/o/{org_slug}/trusted-issuers", mails=_PAGES_TELL, exported=_ORGANIZATIONS_DATA),
    CredentialKind.MANAGEMENT_KEY: Owed(page="/ui/o/{org_slug}/keys", mails=_PAGES_TELL, exported="management_keys"),
    CredentialKind.WORKLOAD_TOKEN: Owed(
        page="/ui/o/{org_slug}/trusted-issuers",
        mails=Because("the page tells when the trusted issuer was last used"),
        exported=_OF_MINUTES,
    ),
    CredentialKind.INVITATION: Owed(page="/ui/o/{org_slug}/people/invitations", mails=("invitation",), exported=_ORGANIZATIONS_DATA),
    CredentialKind.SETUP_LINK: Owed(page="/ui/o/{org_slug}/directories/setup-links", mails=_PAGES_TELL, exported=_ORGANIZATIONS_DATA),
    CredentialKind.CONNECTION_TEST: Owed(
        page=Because("its starter has just opened it; the page of the provider says how its last test ended"),
        mails=_PAGES_TELL,
        exported=_OF_MINUTES,
    ),
    CredentialKind.LOCK_LINK: Owed(
        page=_IN_THE_MAIL, mails=Because("it goes out in the mail that tells of something else"), exported=_NO_ROW
    ),
    CredentialKind.RULES_LINK: Owed(page=_IN_THE_MAIL, mails=("risk_way_back",), exported=_NO_ROW),
    CredentialKind.INSTALLATION_RULES_LINK: Owed(page=_IN_THE_MAIL, mails=("risk_installation_way_back",), exported=_NO_ROW),
}


class Sealed(Frozen):
    """What leaves Postern sealed or signed, comes back, and is stored in no row: links in mails, values in forms and cookies. Nothing that
    walks tables finds these, so each states which kind of credential it is, or why it lets nobody in. A text that is not listed cannot be
    sealed. `context` is what the key ring binds the text to.
    """

    context: str
    opens: CredentialKind | Because

    def within(self, where: str) -> "Sealed":
        """The same, good at one place alone."""
        return replace(self, context=f"{self.context} {where}")


_PUZZLED: Final = Because("it says that a browser has work to do, or has waited; with it, a form is asked all that it is asked otherwise")

LOCK_LINKS: Final = Sealed("mail.lock_link", CredentialKind.LOCK_LINK)
WAYS_BACK: Final = Sealed("mail.way_back_of_organization", CredentialKind.RULES_LINK)
INSTALLATION_WAYS_BACK: Final = Sealed("mail.way_back_of_installation", CredentialKind.INSTALLATION_RULES_LINK)
PUZZLES: Final = Sealed("page.puzzle", _PUZZLED)
WAITING: Final = Sealed("page.puzzle.waiting", _PUZZLED)
WIDGETS: Final = Sealed("page.widget", Because("it is what a person has typed, for the same browser and flow, and for one answer"))
SEALED: Final = (LOCK_LINKS, WAYS_BACK, INSTALLATION_WAYS_BACK, PUZZLES, WAITING, WIDGETS)

_OF_A_ROW: Final = Because("it makes the text of something that has a row, or its digest")
# By the purpose of the server's key that signs it.
SIGNED: Final[Mapping[str, CredentialKind | Because]] = {
    "link_requests": Because("it names a session, and its page opens for the person in this session alone"),
    "invitation_tokens": CredentialKind.INVITATION,
    **dict.fromkeys(
        (
            *("upstream_states", "refresh_tokens", "browser_sessions", "mailed_codes", "device_user_codes"),
            *("backup_codes", "shown_backup_codes"),
        ),
        _OF_A_ROW,
    ),
    "bound_sessions": Because("it names a key, and counts beside the cookie of a session that is bound to this key"),
    "dpop_nonces": Because("it says how late it is, and counts beside a key and a token"),
    "open_registrations": Because("a client's id that says what its program has said of itself, and proves nothing about its bearer"),
    "organization_moves": Because("the file of a move is sealed for the installation that it goes to"),
    **dict.fromkeys(
        ("used_usernames", "imported_people", "saml_name_ids", "audit_chain", "siem_heads"),
        Because("it names or orders something, and opens nothing"),
    ),
}
