"""Custom texts, which an organization or the installation sets in place of the default texts."""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from core.domain.languages import Language
from core.frozen import Frozen


class TextPlace(StrEnum):
    """The text keys that the console lists. Keys of emails begin with `mail_`."""

    EVERYWHERE = "everywhere"
    SIGN_IN = "sign_in"
    SECOND_FACTOR = "second_factor"
    REGISTRATION = "registration"
    PASSWORD = "password"  # noqa: S105 - the page where one enters it
    ADDRESS = "address"
    INVITATION = "invitation"
    DEVICE = "device"
    SIGN_OUT = "sign_out"
    MAIL_REGISTRATION = "mail_registration"
    MAIL_PASSWORD = "mail_password"  # noqa: S105 - the mail with the link for a new one
    MAIL_SIGN_IN = "mail_sign_in"
    MAIL_WELCOME = "mail_welcome"
    MAIL_INVITATION = "mail_invitation"
    MAIL_MEMBERSHIP = "mail_membership"

    @property
    def is_mail(self) -> bool:
        return self.startswith("mail_")


class TextKind(StrEnum):
    """The kind of text on its page or in its email. It decides the maximum length, and whether paragraphs and links are allowed."""

    TITLE = "title"
    PARAGRAPH = "paragraph"
    BUTTON = "button"
    HINT = "hint"
    SUBJECT = "subject"
    FOOTER = "footer"
    NOTICE = "notice"

    @property
    def has_paragraphs(self) -> bool:
        return self in {TextKind.PARAGRAPH, TextKind.FOOTER, TextKind.NOTICE}

    @property
    def keeps_lines(self) -> bool:
        """Whether a line ends where its writer ended it, as the lines of a postal address do."""
        return self is TextKind.FOOTER


# Texts that we have none of: nothing stands there until somebody writes one.
FOOTER: Final = "own.footer"
NOTICE: Final = "own.notice"
# They stand on pages, and in forms of mails, that belong to no organization, or whose organization is not known there. An organization's
# own text would be shown nowhere, so the installation alone has them.
_OF_NO_ORGANIZATION: Final = frozenset(
    {
        *("choose_organization.page", "choose_organization.title", "choose_organization.empty", "choose_organization.empty_hint"),
        *("choose_organization.none", "saml.open_page", "saml.open_title"),
        *("directory_password.name", "directory_password.sign_in", "directory_password.cancel"),
        *("choose_password.title_reset", "choose_password.title_first"),
        *("password_chosen.title", "password_set.title", "password_set.text", "address_confirmed.title", "address_confirmed.text"),
        *("enter_code.page", "enter_code.title", "enter_code.explained", "enter_code.code", "enter_code.hint", "enter_code.next"),
        *("accept_invitation.expired", "accept_invitation.full", "accept_invitation.otherwise", "invitation_accepted.title"),
        *("signed_out.text", "signed_out.telling", "stale.text", "stale.again"),
        *("mail_verification.text", "mail_reset.text", "mail_set_password.text", "mail_sign_in_link.text"),
    }
)


class OpenText(Frozen):
    """A text that an organization, or the installation, may customize. All other texts stay as they are, and a new text is closed until it
    is listed here.

    Closed for good, because users decide by them, and whoever writes them could mislead users: who asks and for whom, the names of
    organizations and applications, the email address that a mail is about, codes and links and their lifetimes, consent and scopes, agents
    and the end of their access, what accepts or declines a membership or an ownership, what verifies an email address, the facts of mails
    about an account's security, and refusals, which name the rule.

    `page` is the page, or the mail, of the text, by the name of its template. All placeholders of the default text are required: they are
    the names and times that a reader must not miss.
    """

    key: str
    place: TextPlace
    page: str
    kind: TextKind

    @property
    def has_ours(self) -> bool:
        return self.key not in {FOOTER, NOTICE}

    @property
    def is_of_organizations(self) -> bool:
        """Whether organizations, and not the installation alone, may put a text of their own there."""
        return self.key not in _OF_NO_ORGANIZATION


# By place, by page or mail, and by kind: the keys, with spaces between them, in the order in which people meet them.
_TABLE: Final[Mapping[TextPlace, Mapping[str, Mapping[TextKind, str]]]] = {
    TextPlace.EVERYWHERE: {
        "sign_in": {TextKind.FOOTER: FOOTER, TextKind.NOTICE: NOTICE},
    },
    TextPlace.SIGN_IN: {
        "sign_in": {
            TextKind.TITLE: "sign_in.page sign_in.title sign_in.title_to",
            TextKind.HINT: "sign_in.email sign_in.new_here sign_in.or",
            TextKind.BUTTON: "sign_in.next sign_in.by_passkey sign_in.register sign_in.with",
        },
        "password": {
            TextKind.TITLE: "password.page password.title",
            TextKind.HINT: "password.password",
            TextKind.BUTTON: "password.sign_in password.other password.link password.forgotten",
        },
        "providers": {TextKind.TITLE: "providers.title providers.title_at", TextKind.BUTTON: "providers.sign_in providers.sign_in_at"},
        "sign_in_link": {TextKind.TITLE: "sign_in_link.page", TextKind.BUTTON: "sign_in_link.sign_in"},
        "choose_account": {TextKind.TITLE: "choose_account.title", TextKind.BUTTON: "choose_account.another"},
        "choose_organization": {
            TextKind.TITLE: "choose_organization.page choose_organization.title choose_organization.empty",
            TextKind.HINT: "choose_organization.empty_hint",
            TextKind.BUTTON: "choose_organization.none",
        },
        "leaving": {TextKind.TITLE: "leaving.title leaving.title_to"},
        "saml_open": {TextKind.TITLE: "saml.open_page saml.open_title"},
        "turned_away": {TextKind.BUTTON: "turned_away.back"},
        "directory_password": {
            TextKind.HINT: "directory_password.name",
            TextKind.BUTTON: "directory_password.sign_in directory_password.cancel",
        },
    },
    TextPlace.SECOND_FACTOR: {
        "second_factor": {
            TextKind.TITLE: "second_factor.page second_factor.title",
            TextKind.PARAGRAPH: "second_factor.explained second_factor.explained_passkey",
            TextKind.HINT: "second_factor.code second_factor.hint second_factor.hint_backup",
            TextKind.BUTTON: "second_factor.sign_in second_factor.other second_factor.by_passkey second_factor.lost",
        },
        "lost_factor": {
            TextKind.TITLE: "lost_factor.title",
            TextKind.PARAGRAPH: "lost_factor.backup_code lost_factor.passkey lost_factor.trusted lost_factor.administrator"
            " lost_factor.then",
            TextKind.BUTTON: "lost_factor.back",
        },
        "second_factor_required": {TextKind.BUTTON: "second_factor_required.later second_factor_required.go_on"},
    },
    TextPlace.REGISTRATION: {
        "register": {
            TextKind.TITLE: "register.page register.title",
            TextKind.HINT: "register.password register.have_one",
            TextKind.BUTTON: "register.create register.sign_in",
        },
        "no_registration": {
            TextKind.TITLE: "no_registration.page no_registration.title",
            TextKind.PARAGRAPH: "no_registration.by_invitation no_registration.closed",
        },
        "newcomer": {
            TextKind.TITLE: "newcomer.page newcomer.title",
            TextKind.PARAGRAPH: "newcomer.have_account",
            TextKind.BUTTON: "newcomer.send newcomer.sign_in",
        },
        "newcomer_code": {TextKind.TITLE: "newcomer.code_page", TextKind.BUTTON: "newcomer.go_on newcomer.again"},
        "answers": {TextKind.TITLE: "answers.page answers.title", TextKind.BUTTON: "answers.later"},
    },
    TextPlace.PASSWORD: {
        "forgotten": {
            TextKind.TITLE: "forgotten.page forgotten.title",
            TextKind.PARAGRAPH: "forgotten.explained",
            TextKind.BUTTON: "forgotten.send forgotten.back",
        },
        "check_mail": {
            TextKind.TITLE: "check_mail.page check_mail.title",
            TextKind.PARAGRAPH: "check_mail.spam check_mail.later",
            TextKind.HINT: "check_mail.code",
            TextKind.BUTTON: "check_mail.code_send check_mail.again check_mail.retry check_mail.sign_in",
        },
        "choose_password": {
            TextKind.TITLE: "choose_password.title_reset choose_password.title_first",
            TextKind.HINT: "choose_password.new choose_password.hint choose_password.repeated",
        },
        "password_chosen": {TextKind.TITLE: "password_chosen.title"},
        "password_set": {TextKind.TITLE: "password_set.title", TextKind.PARAGRAPH: "password_set.text"},
    },
    TextPlace.ADDRESS: {
        "address_confirmed": {TextKind.TITLE: "address_confirmed.title", TextKind.PARAGRAPH: "address_confirmed.text"},
        "verify_email": {TextKind.TITLE: "verify_email.page"},
    },
    TextPlace.INVITATION: {
        "invitation": {
            TextKind.TITLE: "accept_invitation.page accept_invitation.title",
            TextKind.PARAGRAPH: "accept_invitation.here accept_invitation.existing accept_invitation.new_account",
            TextKind.HINT: "accept_invitation.name accept_invitation.expired accept_invitation.full accept_invitation.otherwise",
        },
        "invitation_accepted": {
            TextKind.TITLE: "invitation_accepted.title invitation_accepted.title_of",
            TextKind.PARAGRAPH: "invitation_accepted.text",
        },
    },
    TextPlace.DEVICE: {
        "enter_code": {
            TextKind.TITLE: "enter_code.page enter_code.title",
            TextKind.PARAGRAPH: "enter_code.explained",
            TextKind.HINT: "enter_code.code enter_code.hint",
            TextKind.BUTTON: "enter_code.next",
        },
    },
    TextPlace.SIGN_OUT: {
        "sign_out": {
            TextKind.TITLE: "logout.page logout.title",
            TextKind.PARAGRAPH: "logout.ends",
            TextKind.BUTTON: "logout.yes logout.no",
        },
        "signed_out": {TextKind.TITLE: "signed_out.title", TextKind.PARAGRAPH: "signed_out.text signed_out.telling"},
        "stale": {TextKind.PARAGRAPH: "stale.text stale.again"},
    },
    TextPlace.MAIL_REGISTRATION: {
        "verification": {
            TextKind.SUBJECT: "mail_verification.subject mail_verification.subject_for mail_verification.preview",
            TextKind.PARAGRAPH: "mail_verification.text mail_verification.text_at",
            TextKind.BUTTON: "mail_verification.button",
        },
        "newcomer_code": {TextKind.SUBJECT: "mail_newcomer_code.subject"},
    },
    TextPlace.MAIL_PASSWORD: {
        "reset": {
            TextKind.SUBJECT: "mail_reset.subject mail_reset.subject_for",
            TextKind.PARAGRAPH: "mail_reset.text mail_reset.text_at",
            TextKind.BUTTON: "mail_reset.button",
        },
        "set_password": {
            TextKind.SUBJECT: "mail_set_password.subject mail_set_password.subject_for mail_set_password.preview",
            TextKind.PARAGRAPH: "mail_set_password.text mail_set_password.text_at",
            TextKind.BUTTON: "mail_set_password.button",
        },
    },
    TextPlace.MAIL_SIGN_IN: {
        "sign_in_link": {
            TextKind.SUBJECT: "mail_sign_in_link.subject mail_sign_in_link.subject_for",
            TextKind.PARAGRAPH: "mail_sign_in_link.text mail_sign_in_link.text_at",
            TextKind.BUTTON: "mail_sign_in_link.button",
        },
    },
    TextPlace.MAIL_WELCOME: {
        "welcome": {
            TextKind.SUBJECT: "mail_welcome.subject mail_welcome.preview",
            TextKind.PARAGRAPH: "mail_welcome.text mail_welcome.note",
            TextKind.BUTTON: "mail_welcome.button",
        },
        "joined": {
            TextKind.SUBJECT: "mail_joined.subject mail_joined.preview",
            TextKind.PARAGRAPH: "mail_joined.text mail_joined.note",
            TextKind.BUTTON: "mail_joined.button",
        },
    },
    TextPlace.MAIL_INVITATION: {
        "invitation": {
            TextKind.SUBJECT: "mail_invitation.subject",
            TextKind.TITLE: "mail_invitation.title",
            TextKind.PARAGRAPH: "mail_invitation.note",
            TextKind.BUTTON: "mail_invitation.button",
        },
    },
    TextPlace.MAIL_MEMBERSHIP: {
        "join_approved": {
            TextKind.SUBJECT: "mail_join_approved.subject",
            TextKind.TITLE: "mail_join_approved.title",
            TextKind.PARAGRAPH: "mail_join_approved.text",
        },
    },
}

OPEN_TEXTS: Final[Mapping[str, OpenText]] = MappingProxyType(
    {
        key: OpenText(key, place, page, kind)
        for place, pages in _TABLE.items()
        for page, kinds in pages.items()
        for kind, keys in kinds.items()
        for key in keys.split()
    }
)
"""By key, in the order in which people meet them."""


def is_open(key: str) -> bool:
    return key in OPEN_TEXTS


# Rings after the installation's texts, or the rules for approvals, have changed: every process reads them again.
INSTALLATION_TEXTS_TOPIC: Final = "installation.texts"

# Control characters besides the end of a line, characters that nobody sees, and those that turn the direction of what follows. Joiners
# may stand where the rules for own texts let them: between letters of scripts that need them.
_UNSEEN: Final = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
    r"|(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])",
)


class OwnTexts(Frozen, weakref=True):
    """Custom texts. An organization's take precedence over the installation's. `digest` tells these texts from all others; texts with the
    same digest are the same. What is made of them for showing is kept as long as they are.
    """

    digest: str = ""
    by_language: Mapping[Language, Mapping[str, str]] = MappingProxyType({})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnTexts) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def of(self, language: Language) -> Mapping[str, str]:
        """By key. What is not there is ours."""
        return self.by_language.get(language, _NOTHING)


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
NO_OWN_TEXTS: Final = OwnTexts()


class ApprovalRules(Frozen):
    """Where texts of organizations wait for a platform owner's yes."""

    mails: bool = True
    pages: bool = False

    def show_on_pages(self, *, approved: bool) -> bool:
        return approved or not self.pages

    def carry_in_mails(self, *, approved: bool, is_own: bool) -> bool:
        """Whether a mail has own texts of the organization that brands it. `is_own`: the organization's own server sends the mail, or the
        mail goes to somebody with an own tie to the organization. Anybody may found an organization: without this rule, they could have
        the installation's server write in their words to whomever they like.
        """
        return is_own or approved or not self.mails


class InstallationWords(Frozen):
    """What the installation itself says about own texts."""

    texts: OwnTexts = NO_OWN_TEXTS
    rules: ApprovalRules = ApprovalRules()

    def over_ours(self, own: OwnTexts, *, may_show: bool) -> list[OwnTexts]:
        """What stands over our texts, the nearest first: an organization's `own` ones, where they may be shown, over the installation's."""
        return [texts for texts in (own if may_show else NO_OWN_TEXTS, self.texts) if texts is not NO_OWN_TEXTS]


def shown_texts(own: Mapping[str, str]) -> Mapping[str, str]:
    """The stored texts of a language that may be shown. What was stored under older rules, or past them, must be harmless all the same: a
    key that is closed, or is no longer there, and a text with characters that nobody sees, are as if they were not stored.
    """
    return {key: text for key, text in own.items() if is_open(key) and not has_unseen(text)}


def has_unseen(text: str) -> bool:
    """Whether the text has characters that no shown text has."""
    return _UNSEEN.search(text) is not None
