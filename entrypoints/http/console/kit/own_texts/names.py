"""What each own text is called in the console: what it is, and which of several, where its page or mail has more of that kind."""

from collections.abc import Mapping
from typing import Final

from core.domain.texts.own_texts import OpenText

_OF_TABS: Final = frozenset({"page", "open_page"})
# By what tells a text from the others of its page or mail: the keys, with spaces between them.
_TABLE: Final[Mapping[str, str]] = {
    "without_application": "sign_in.title leaving.title",
    "with_application": "sign_in.title_to leaving.title_to",
    "address": "sign_in.email",
    "no_account": "sign_in.new_here",
    "between": "sign_in.or",
    "go_on": "sign_in.next second_factor_required.go_on newcomer.go_on",
    "passkey": "sign_in.by_passkey second_factor.explained_passkey second_factor.by_passkey lost_factor.passkey",
    "create": "sign_in.register register.create",
    "provider": "sign_in.with",
    "sign_in": "password.sign_in directory_password.sign_in second_factor.sign_in register.sign_in check_mail.sign_in",
    "other_address": "password.other second_factor.other",
    "link": "password.link",
    "forgotten": "password.forgotten",
    "without_provider": "providers.title providers.sign_in",
    "with_provider": "providers.title_at providers.sign_in_at",
    "choice": "choose_organization.title",
    "none": "choose_organization.empty",
    "other_way": "directory_password.cancel newcomer.sign_in",
    "app": "second_factor.explained",
    "code": "second_factor.code enter_code.code",
    "code_hint": "second_factor.hint enter_code.hint",
    "backup_code": "second_factor.hint_backup lost_factor.backup_code",
    "lost": "second_factor.lost",
    "trusted": "lost_factor.trusted",
    "help": "lost_factor.administrator",
    "then": "lost_factor.then",
    "later": "second_factor_required.later",
    "password": "register.password",
    "have_account": "register.have_one",
    "by_invitation": "no_registration.by_invitation",
    "closed": "no_registration.closed",
    "send": "newcomer.send forgotten.send",
    "send_again": "newcomer.again check_mail.again",
    "back": "forgotten.back",
    "spam": "check_mail.spam",
    "mail_later": "check_mail.later",
    "by_code": "check_mail.code_send",
    "another_link": "check_mail.retry",
    "another_password": "choose_password.title_reset",
    "first_password": "choose_password.title_first",
    "new_password": "choose_password.new",
    "password_hint": "choose_password.hint",
    "repeated": "choose_password.repeated",
    "here": "accept_invitation.here",
    "with_account": "accept_invitation.existing",
    "without_account": "accept_invitation.new_account",
    "name": "accept_invitation.name",
    "expired": "accept_invitation.expired",
    "full": "accept_invitation.full",
    "otherwise": "accept_invitation.otherwise",
    "without_organization": (
        "invitation_accepted.title mail_verification.subject mail_verification.text mail_reset.subject mail_reset.text "
        "mail_set_password.subject mail_set_password.text mail_sign_in_link.subject mail_sign_in_link.text"
    ),
    "with_organization": (
        "invitation_accepted.title_of mail_verification.subject_for mail_verification.text_at mail_reset.subject_for "
        "mail_reset.text_at mail_set_password.subject_for mail_set_password.text_at mail_sign_in_link.subject_for "
        "mail_sign_in_link.text_at"
    ),
    "sign_out": "logout.yes",
    "stay": "logout.no",
    "ended": "signed_out.text",
    "telling": "signed_out.telling",
    "too_old": "stale.text",
    "elsewhere": "stale.again",
    "message": "mail_welcome.text mail_joined.text",
    "note": "mail_welcome.note mail_joined.note",
}
_WHICH: Final[Mapping[str, str]] = {key: which for which, keys in _TABLE.items() for key in keys.split()}


def label_of(opened: OpenText) -> str:
    """The key of what the text is called. The title of a tab often reads as the heading of its page, and what lists of mails show below a
    subject is none.
    """
    if opened.key in _WHICH:
        own = f"{opened.kind}_{_WHICH[opened.key]}"
        return f"console.own_texts.name.{own}"
    name = opened.key.rpartition(".")[2]
    kind = "tab" if name in _OF_TABS else "preview" if name == "preview" else opened.kind
    return f"console.own_texts.kind_{kind}"
