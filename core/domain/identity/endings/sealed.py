"""What goes out sealed or signed and comes back, and is kept in no row: links in mails, values in forms and cookies. Nothing that walks
tables finds these, so each says here which kind of credential it is, or why it lets nobody in. A text that is not here cannot be sealed.
"""

from collections.abc import Mapping
from typing import Final

from core.domain.identity.endings.endings import Because, CredentialKind
from core.frozen import Frozen, replace


class Sealed(Frozen):
    """`context` is what the key ring binds the text to."""

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
    "dpop_nonces": Because("it says how late it is, and counts beside a key and a token"),
    "open_registrations": Because("a client's id that says what its program has said of itself, and proves nothing about its bearer"),
    "organization_moves": Because("the file of a move is sealed for the installation that it goes to"),
    **dict.fromkeys(
        ("used_usernames", "imported_people", "saml_name_ids", "audit_chain", "siem_heads"),
        Because("it names or orders something, and opens nothing"),
    ),
}
