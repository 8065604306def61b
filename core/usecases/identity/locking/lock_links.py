"""The links in mails that lock an account. Nothing of them is kept: the key ring seals what a link is bound to, and the account's last lock
says whether it is used up. So a mail needs no row, and writing one costs no statement.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.links import Links
from core.domain.identity.locking.account_locks import LockLink, NotALockLink
from core.domain.identity.mailed_tokens import LinkRefused, LinkUnknown
from core.domain.secrets import Token
from core.frozen import Frozen
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing

_CONTEXT: Final = "mail.lock_link"


class LockLinks(Frozen):
    """Implements `ports.mail_templates.LockLinkMaker`."""

    keyring: KeyRing
    links: Links
    clock: Clock

    def issue(self, user: UserId, to: str, mail: str) -> str:
        sealed = self.keyring.seal(LockLink.of(user, Email(to), mail, self.clock.now()).packed(), _CONTEXT)
        return self.links.lock(Token(urlsafe_b64encode(sealed).rstrip(b"=").decode()))

    def read(self, token: Token) -> LockLink:
        """Raises `LinkRefused`."""
        text = token.reveal()
        try:
            # A key that has left the ring opens nothing any more: the fault is nobody's, and the link is only old.
            link = LockLink.unpacked(self.keyring.open(urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)), _CONTEXT))
        except (CannotOpen, NotALockLink, ValueError):
            raise LinkUnknown("This link is not valid", words="link_invalid") from None
        if link.is_over(self.clock.now()):
            raise LinkRefused("This link has expired", words="link_expired")
        return link
