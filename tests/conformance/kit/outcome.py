"""What a module comes to, beside passed and failed: a warning, or something that is not offered."""

from dataclasses import dataclass, field
from typing import Final

from ops.conformance.table import NOT_OFFERED, WARNING

_TOLD: Final = (
    "The ID token tells the claims of the granted scopes, too, as applications without a call of userinfo expect; the suite says that this"
    " violates no specification."
)
# Every warning that a module may end with, and why it stays. Any other warning fails the test, and so does one of these that is gone.
EXPLAINED: Final = {
    "oidcc-scope-profile": "Accounts of Postern have no middle name, nickname, profile page, website, gender or date of birth.",
    "fapi2-security-profile-final-test-claims-parameter-identity-claims": "The ID token has `sid`, which this condition does not know.",
    "fapi2-security-profile-final-attempt-reuse-authorization-code-after-one-second": (
        "Whoever repeats its own request within ten seconds has lost the answer: it is refused, and the access token counts on."
    ),
    **dict.fromkeys(("oidcc-scope-email", "oidcc-alternate-happy-flow", "oidcc-claims-essential"), _TOLD),
}


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass
class Outcome:
    """Of one module."""

    module: str
    warnings: list[str] = field(default_factory=list)
    not_offered: list[str] = field(default_factory=list)

    def should(self, holds: object, otherwise: str) -> None:
        """A condition whose failure is a warning."""
        if not holds:
            self.warnings.append(otherwise)

    def is_not_offered(self, because: str) -> None:
        """The module skips itself here, and the test ends."""
        self.not_offered.append(because)

    def settle(self) -> list[tuple[str, str]]:
        """What the table says beside "passed". Raises `AssertionError` if a warning is not explained, or an explained one is gone."""
        explained = EXPLAINED.get(self.module)
        assert bool(self.warnings) == (explained is not None), self.warnings or f"{self.module} warns no longer: take it off EXPLAINED"
        told = [(WARNING, explained)] if explained is not None else []
        return told + [(NOT_OFFERED, because) for because in self.not_offered]
