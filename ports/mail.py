"""Mails: their wording, and the ways in which they leave."""

from datetime import datetime, timedelta
from typing import Protocol

from core.domain.branding import POSTERN, Branding
from core.domain.identifiers import JobId, UserId
from core.domain.languages import Language
from core.domain.mail import Mail


class MailTransport(Protocol):
    """SMTP, the console, a file and a folder implement it. An operator chooses by `POSTERN_MAIL`."""

    async def send(self, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        """Hand the mail over. The id becomes the Message-ID, the same at every attempt. Raises `MailRefused` when another attempt is
        pointless, and `MailDelayed` otherwise.
        """

    async def check(self) -> str:
        """One line for `postern doctor` that says where mail goes. Raises `MailDelayed` when mail could not be delivered now."""


class MailRefused(Exception):
    """The server refused this mail for good, with a 5xx answer."""


class MailDelayed(Exception):
    """The mail cannot leave now: no connection, a timeout, a 4xx answer, or failed authentication. Before `after`, another attempt is
    pointless. `asked` is False when no server was asked.
    """

    def __init__(self, message: str, *, after: timedelta | None = None, asked: bool = True) -> None:
        self.after = after
        self.asked = asked
        super().__init__(message)


class LockLinkMaker(Protocol):
    def issue(self, user: UserId, to: str, mail: str) -> str:
        """The address of the page on which the reader of this mail locks the account."""


class MailTemplates(Protocol):
    """| template | values |
    |---|---|
    | verification, welcome, joined, reset, set_password, email_changed_new | `link` |
    | email_changed_old | `new_email`, `done`: whether the change has happened or was only asked for |
    | invitation | `link`, `inviter`: their address, `until`, `application` and the path of its `application_logo`, or both empty; the
      branding is the organization's |
    | webhook_paused | `webhook`: its name, `host`: of its URL; the branding is the organization's |
    | mail_server_failed, mail_server_test | `host`: of the organization's mail server; the branding of the first is the organization's |
    | offboarding_late | `receivers`: how many are late, `link`; the branding is the organization's |
    | domain_proof_missing, domain_route_lost | `domain`, `record`: where its proof was; the branding is the organization's |
    | resource_host_lost | as for these |
    | setup_link | `link`, `until`; the branding is the organization's |
    | setup_waiting | `link`, `made`: the name of the set-up link, `thing`: what was set up; the branding is the organization's |
    | join_requested | `person`: the address of the person who asks, `domain`: its domain; the branding is the organization's |
    | ownership_received, ownership_returned, ownership_declined | `link`; the branding is the organization's |
    | risk_way_back | `link` |
    | risk_owner_notice | `person`: an address, `rule`: its name, `everywhere`: of the installation; else the organization's branding |
    | risk_installation_way_back | `link` |
    | join_approved | none; the branding is the organization's |
    | saml_certificate_ends | `service`: its name, `date`: in ISO 8601; the branding is the organization's |
    | connection_ends | `connection`: its name, `what`: a `ConnectionEnding`, `date`: in ISO 8601, `link`; the organization's branding |
    | connection_certificate_waits | `connection`, `reason`: an `AskedBecause`, `fingerprint`, `link`; likewise |
    | connection_unread | `connection`, `other_entity`: the metadata are another directory's, `since`: in ISO 8601, `link`; likewise |
    | passkey_added | `passkey`: its name, `link`, `by_itself`: the browser has made it without a question |
    | passkey_removed, passkey_copied | `passkey`: its name |
    | user_key_made | `called`, `application`, `organization`: names; `application_logo`: its path, or empty; `by_application`: whether the
      application made the key |
    | afar_request | `application`, `organization`, `api`: names; `application_logo`: its path, or empty; `says`: what it would do;
      `message`: its words; `until`, `link` |
    | access_reset | `link`, or None where it was not mailed; `at_provider`: whether the person signs in at a provider |
    | account_locked | `link`, `by`: a `LockedBy`, `recent`: names of ways in, none or some, `has_recent_app`: an authenticator app |
    | mfa_enabled | `by_passkeys`: whether it is passkeys |
    | identity_linked, identity_unlinked | `provider`: its name; the second, `signed_out`: whether all other sessions ended |
    | billing_trial_ends, billing_payment_failed, billing_action_required | `service`, `plan`: names; `application_logo`: the path of the
      service's, or empty; the branding is the organization's |
    | password_changed, password_set | `keys_ended`, `keys_stay`: names of keys for applications, none or some |
    | session_displaced | `place`: the name of the application or organization in which a session ended; empty for the person's own |
    | mfa_disabled, backup_codes_renewed, new_device, unusual_sign_in | none |

    Every template also takes `when`, `address` (of the client), `device` and `location`. The mail shows those that are given. Mails
    that tell of something that a stranger may have done have a link that locks the account (`LOCKING_MAILS`).
    """

    def mail(
        self,
        name: str,
        to: str,
        *,
        account: UserId | None,
        language: Language | None,
        branding: Branding = POSTERN,
        carries_own_texts: bool = False,
        **values: str | bool | datetime | tuple[str, ...] | None,
    ) -> Mail:
        """`account` is the person whose mail it is, and None for a mail that others have sent to an address: see `Mail`. `language` is the
        one that the person has chosen or, failing that, the one that the cause of the mail suggests; None is nobody's. A mail that an
        organization brands is in one of its languages: in its first one where `language` is none of them, or None. Otherwise None is
        English. With `carries_own_texts`, the mail has the own texts and the links of the branding's organization: its own server sends the
        mail, or the mail goes to somebody with an own tie to it. Otherwise, it has the texts only if a platform owner has said yes to them,
        and no links. Raises when there is no such template or a value is missing. Both are bugs, and a test of ours finds them first.
        """
