"""The links in mails that lock an account. Nothing of them is kept: the key ring seals what a link is bound to, and the account's last lock
says whether it is used up. So a mail needs no row, and writing one costs no statement.
"""

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.endings.sealed import LOCK_LINKS
from core.domain.identity.links import Links
from core.domain.identity.locking.account_locks import LockLink, NotALockLink
from core.domain.identity.mailed_tokens import LinkRefused, LinkUnknown
from core.domain.secrets import Token
from core.frozen import Frozen
from core.usecases.identity.guards.sealed_texts import opened_text, sealed_text
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing


class LockLinks(Frozen):
    """Implements `ports.mail_templates.LockLinkMaker`."""

    keyring: KeyRing
    links: Links
    clock: Clock

    def issue(self, user: UserId, to: str, mail: str) -> str:
        link = LockLink.of(user, Email(to), mail, self.clock.now())
        return self.links.lock(Token(sealed_text(self.keyring, link.packed(), LOCK_LINKS)))

    def read(self, token: Token) -> LockLink:
        """Raises `LinkRefused`."""
        try:
            # A key that has left the ring opens nothing any more: the fault is nobody's, and the link is only old.
            link = LockLink.unpacked(opened_text(self.keyring, token.reveal(), LOCK_LINKS))
        except (CannotOpen, NotALockLink, ValueError):
            raise LinkUnknown("This link is not valid", words="link_invalid") from None
        if link.is_over(self.clock.now()):
            raise LinkRefused("This link has expired", words="link_expired")
        return link
