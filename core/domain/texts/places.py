"""Where open texts stand: the names under which people look for them."""

from enum import StrEnum


class TextPlace(StrEnum):
    """What the console lists. Those of mails begin with `mail_`."""

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
    """What a text is on its page or in its mail, which decides how long it may be, and whether it may have paragraphs and links."""

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
