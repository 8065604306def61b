"""The open list: the texts of ours that an organization, or the installation, may put others in place of. All other texts stay ours, and a
new text of ours is closed until somebody names it here.

Closed for good, because a person decides by them, and whoever writes them could mislead people: who asks and for whom, the names of
organizations and applications, the address that a mail is about, codes and links and how long they work, consent and scopes, agents and
their end, what accepts or declines a membership or an ownership, what confirms an address, the facts of mails about an account's security,
and refusals, which name the rule.
Where an open text holds a name, its placeholder is required, and the name stays.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from core.domain.texts.places import TextKind, TextPlace
from core.frozen import Frozen

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
    """`page` is the page, or the mail, on which the text stands, by the name of its template. All placeholders of ours are required: they
    are the names and moments that a reader must not miss.
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


def _listed(place: TextPlace, page: str, **keys: str) -> Iterator[OpenText]:
    """`keys` has the keys of one kind, by the kind's name, with spaces between them."""
    for kind, named in keys.items():
        for key in named.split():
            yield OpenText(key, place, page, TextKind(kind))


def _pages() -> Iterator[OpenText]:
    place = TextPlace.EVERYWHERE
    yield from _listed(place, "sign_in", footer=FOOTER, notice=NOTICE)

    place = TextPlace.SIGN_IN
    yield from _listed(
        place,
        "sign_in",
        title="sign_in.page sign_in.title sign_in.title_to",
        hint="sign_in.email sign_in.new_here sign_in.or",
        button="sign_in.next sign_in.by_passkey sign_in.register sign_in.with",
    )
    yield from _listed(
        place,
        "password",
        title="password.page password.title",
        hint="password.password",
        button="password.sign_in password.other password.link password.forgotten",
    )
    yield from _listed(place, "providers", title="providers.title providers.title_at", button="providers.sign_in providers.sign_in_at")
    yield from _listed(place, "sign_in_link", title="sign_in_link.page", button="sign_in_link.sign_in")
    yield from _listed(place, "choose_account", title="choose_account.title", button="choose_account.another")
    yield from _listed(
        place,
        "choose_organization",
        title="choose_organization.page choose_organization.title choose_organization.empty",
        hint="choose_organization.empty_hint",
        button="choose_organization.none",
    )
    yield from _listed(place, "leaving", title="leaving.title leaving.title_to")
    yield from _listed(place, "saml_open", title="saml.open_page saml.open_title")
    yield from _listed(place, "turned_away", button="turned_away.back")
    yield from _listed(
        place, "directory_password", hint="directory_password.name", button="directory_password.sign_in directory_password.cancel"
    )

    place = TextPlace.SECOND_FACTOR
    yield from _listed(
        place,
        "second_factor",
        title="second_factor.page second_factor.title",
        paragraph="second_factor.explained second_factor.explained_passkey",
        hint="second_factor.code second_factor.hint second_factor.hint_backup",
        button="second_factor.sign_in second_factor.other second_factor.by_passkey second_factor.lost",
    )
    yield from _listed(
        place,
        "lost_factor",
        title="lost_factor.title",
        paragraph="lost_factor.backup_code lost_factor.passkey lost_factor.trusted lost_factor.administrator lost_factor.then",
        button="lost_factor.back",
    )
    yield from _listed(
        place,
        "second_factor_required",
        button="second_factor_required.later second_factor_required.go_on",
    )

    place = TextPlace.REGISTRATION
    yield from _listed(
        place,
        "register",
        title="register.page register.title",
        hint="register.password register.have_one",
        button="register.create register.sign_in",
    )
    yield from _listed(
        place,
        "no_registration",
        title="no_registration.page no_registration.title",
        paragraph="no_registration.by_invitation no_registration.closed",
    )
    yield from _listed(
        place,
        "newcomer",
        title="newcomer.page newcomer.title",
        paragraph="newcomer.have_account",
        button="newcomer.send newcomer.sign_in",
    )
    yield from _listed(place, "newcomer_code", title="newcomer.code_page", button="newcomer.go_on newcomer.again")
    yield from _listed(place, "answers", title="answers.page answers.title", button="answers.later")

    place = TextPlace.PASSWORD
    yield from _listed(
        place,
        "forgotten",
        title="forgotten.page forgotten.title",
        paragraph="forgotten.explained",
        button="forgotten.send forgotten.back",
    )
    yield from _listed(
        place,
        "check_mail",
        title="check_mail.page check_mail.title",
        paragraph="check_mail.spam check_mail.later",
        hint="check_mail.code",
        button="check_mail.code_send check_mail.again check_mail.retry check_mail.sign_in",
    )
    yield from _listed(
        place,
        "choose_password",
        title="choose_password.title_reset choose_password.title_first",
        hint="choose_password.new choose_password.hint choose_password.repeated",
    )
    yield from _listed(place, "password_chosen", title="password_chosen.title")
    yield from _listed(place, "password_set", title="password_set.title", paragraph="password_set.text")

    place = TextPlace.ADDRESS
    yield from _listed(place, "address_confirmed", title="address_confirmed.title", paragraph="address_confirmed.text")
    yield from _listed(place, "verify_email", title="verify_email.page")

    place = TextPlace.INVITATION
    yield from _listed(
        place,
        "invitation",
        title="accept_invitation.page accept_invitation.title",
        paragraph="accept_invitation.here accept_invitation.existing accept_invitation.new_account",
        hint="accept_invitation.name accept_invitation.expired accept_invitation.full accept_invitation.otherwise",
    )
    yield from _listed(
        place,
        "invitation_accepted",
        title="invitation_accepted.title invitation_accepted.title_of",
        paragraph="invitation_accepted.text",
    )

    place = TextPlace.DEVICE
    yield from _listed(
        place,
        "enter_code",
        title="enter_code.page enter_code.title",
        paragraph="enter_code.explained",
        hint="enter_code.code enter_code.hint",
        button="enter_code.next",
    )

    place = TextPlace.SIGN_OUT
    yield from _listed(
        place,
        "sign_out",
        title="logout.page logout.title",
        paragraph="logout.ends",
        button="logout.yes logout.no",
    )
    yield from _listed(place, "signed_out", title="signed_out.title", paragraph="signed_out.text signed_out.telling")
    yield from _listed(place, "stale", paragraph="stale.text stale.again")


def _mails() -> Iterator[OpenText]:
    place = TextPlace.MAIL_REGISTRATION
    yield from _listed(
        place,
        "verification",
        subject="mail_verification.subject mail_verification.subject_for mail_verification.preview",
        paragraph="mail_verification.text mail_verification.text_at",
        button="mail_verification.button",
    )
    yield from _listed(place, "newcomer_code", subject="mail_newcomer_code.subject")

    place = TextPlace.MAIL_PASSWORD
    yield from _listed(
        place,
        "reset",
        subject="mail_reset.subject mail_reset.subject_for",
        paragraph="mail_reset.text mail_reset.text_at",
        button="mail_reset.button",
    )
    yield from _listed(
        place,
        "set_password",
        subject="mail_set_password.subject mail_set_password.subject_for mail_set_password.preview",
        paragraph="mail_set_password.text mail_set_password.text_at",
        button="mail_set_password.button",
    )

    yield from _listed(
        TextPlace.MAIL_SIGN_IN,
        "sign_in_link",
        subject="mail_sign_in_link.subject mail_sign_in_link.subject_for",
        paragraph="mail_sign_in_link.text mail_sign_in_link.text_at",
        button="mail_sign_in_link.button",
    )

    place = TextPlace.MAIL_WELCOME
    yield from _listed(
        place,
        "welcome",
        subject="mail_welcome.subject mail_welcome.preview",
        paragraph="mail_welcome.text mail_welcome.note",
        button="mail_welcome.button",
    )
    yield from _listed(
        place,
        "joined",
        subject="mail_joined.subject mail_joined.preview",
        paragraph="mail_joined.text mail_joined.note",
        button="mail_joined.button",
    )

    yield from _listed(
        TextPlace.MAIL_INVITATION,
        "invitation",
        subject="mail_invitation.subject",
        title="mail_invitation.title",
        paragraph="mail_invitation.note",
        button="mail_invitation.button",
    )

    yield from _listed(
        TextPlace.MAIL_MEMBERSHIP,
        "join_approved",
        subject="mail_join_approved.subject",
        title="mail_join_approved.title",
        paragraph="mail_join_approved.text",
    )


OPEN: Final[Mapping[str, OpenText]] = MappingProxyType({text.key: text for text in (*_pages(), *_mails())})
"""By key, in the order in which people meet them."""


def is_open(key: str) -> bool:
    return key in OPEN
