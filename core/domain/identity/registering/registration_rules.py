"""Who may register: whom the pages of the installation, and those of an organization, give an account. Who may sign in with an account is
another question, and so is whom an administrator, a directory or an application gives one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from core.domain.email import Email, mail_domain
from core.domain.errors import BadRequest, Forbidden, Refusal
from core.frozen import Frozen

_DOMAIN: Final = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])")


class RegistrationPolicy(StrEnum):
    """Whom the pages give an account."""

    ANYBODY = "anybody"
    EXCEPT_DOMAINS = "except_domains"
    """Anybody whose address is neither in one of the domains nor in a throw-away one."""
    DOMAINS = "domains"
    """Addresses in one of the domains."""
    INVITATION = "invitation"
    """Whoever opens the link of an invitation, or comes from a provider with an address that is invited."""
    CLOSED = "closed"
    """Whoever opens the link of an invitation, and nobody else."""


# Here a page shows no form: no address would do.
WITHOUT_FORM: Final = frozenset({RegistrationPolicy.INVITATION, RegistrationPolicy.CLOSED})

# The words of a refusal of the address, beside those of the password.
REFUSED_DOMAIN: Final = "registration_domain"


class RegistrationClosed(Forbidden):
    text = "Nobody can register here. If you are invited, open the link of the invitation"


class RegistrationRule(Frozen, kw_only=True):
    policy: RegistrationPolicy = RegistrationPolicy.ANYBODY
    domains: tuple[str, ...] = ()
    """Let in or refused, as the policy says; without meaning for the others."""

    def require_fitting(self) -> None:
        """Raises `BadRequest` for a rule that no address could fit."""
        if self.policy is RegistrationPolicy.DOMAINS and not self.domains:
            raise BadRequest("registration_domains: name at least one, or choose another policy", words="registration_no_domain")

    def refuses(self, email: Email, is_throwaway: Callable[[str], bool], *, invited: bool = False) -> bool:
        """`invited`: the address is proved, and an invitation to it waits. Only its link opens what is closed. A domain that lets addresses
        in does not let in those of the domains below it, where others may be the masters; a domain that is refused takes those along.
        """
        if invited:
            return self.policy is RegistrationPolicy.CLOSED
        match self.policy:
            case RegistrationPolicy.ANYBODY:
                return False
            case RegistrationPolicy.EXCEPT_DOMAINS:
                domain = mail_domain(email)
                return is_throwaway(domain) or any(one in self.domains for one in with_parents(domain))
            case RegistrationPolicy.DOMAINS:
                return email.domain not in self.domains
            case _:
                return True

    def require(self, email: Email, is_throwaway: Callable[[str], bool]) -> None:
        """Raises `RegistrationClosed` where nobody registers, and `BadRequest` for the address's domain."""
        if self.refuses(email, is_throwaway):
            raise self._refusal()

    def _refusal(self) -> Refusal:
        """The refusal does not depend on the address beyond its domain, so it tells nobody who has an account."""
        if self.policy in WITHOUT_FORM:
            return RegistrationClosed(words="registration_closed", detail=f"registration: {self.policy}")
        message = "email: an address of this mail domain cannot be registered here"
        return BadRequest(message, words=REFUSED_DOMAIN, detail=f"registration: {self.policy}")


def closing(rules: Iterable[RegistrationRule]) -> RegistrationPolicy | None:
    """The first policy of these rules under which nobody registers, whatever the address. None where an address may do."""
    return next((rule.policy for rule in rules if rule.policy in WITHOUT_FORM), None)


class Newcomers(Frozen, kw_only=True):
    """Who may come newly to where a page leads: what the rules of its organization and of its application say of people in general."""

    rule: RegistrationRule | None = None
    """The organization's own. None where the page belongs to none."""
    get_in: bool = True
    """The application lets somebody in who has an account and nothing else, or the organization lets people of a domain that it has proved
    join by themselves, or ask.
    """


ANYBODY_NEW: Final = Newcomers()


def listed_domain(text: str) -> str:
    """A domain of a list, in the form in which addresses compare. Empty when it is none."""
    plain = text.strip().rstrip(".")
    domain = plain.lower() if plain.isascii() else mail_domain(Email(f"somebody@{plain}"))
    return domain if _DOMAIN.fullmatch(domain) else ""


def with_parents(domain: str) -> Sequence[str]:
    """The domain, and the domains above it, without the last label alone."""
    labels = domain.split(".")
    return [".".join(labels[start:]) for start in range(max(len(labels) - 1, 1))]
