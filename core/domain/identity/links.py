"""Links in mails. They lead to the configured addresses of this installation, never to an address from a request."""

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlencode

from core.domain.identifiers import OrganizationId, ProposalId, SetupLinkId
from core.domain.identity.mailed_tokens import PROVES_ADDRESS, SIGNS_IN, MailedTokenPurpose
from core.domain.secrets import Token
from core.frozen import Frozen


class Links(Frozen):
    """`base_url` is the address of the installation, `frontend_url` the address of its pages for people."""

    base_url: str
    frontend_url: str

    @property
    def sign_in(self) -> str:
        """The page for a person who can sign in now."""
        return f"{self.frontend_url}/sign-in" if self.frontend_url == f"{self.base_url}/ui" else self.frontend_url

    def redeeming(self, purpose: MailedTokenPurpose, token: Token, onward: Mapping[str, str] = MappingProxyType({})) -> str:
        """`onward` says where the person goes on after the link has signed them in, or has proved an address."""
        if purpose in PROVES_ADDRESS:
            return f"{self.base_url}/ui/verify-email?{urlencode({'token': token.reveal(), **onward})}"
        if purpose in SIGNS_IN:
            return f"{self.base_url}/ui/sign-in/link?{urlencode({'token': token.reveal(), **onward})}"
        page = "reset-password" if purpose is MailedTokenPurpose.RESET_PASSWORD else "set-password"
        return f"{self.frontend_url}/{page}?token={token.reveal()}"

    def lock(self, token: Token) -> str:
        """The page on which the reader of a mail locks the account."""
        return f"{self.base_url}/ui/lock-account?{urlencode({'token': token.reveal()})}"

    def risk_way_back(self, organization: str, token: Token) -> str:
        """The page on which an owner lifts the rules that refuse."""
        return f"{self.base_url}/ui/organizations/{organization}/risk-rules?{urlencode({'token': token.reveal()})}"

    def installation_way_back(self, token: Token) -> str:
        """The page on which a platform owner lifts the rules of the installation that refuse."""
        return f"{self.base_url}/ui/lift-rules?{urlencode({'token': token.reveal()})}"

    def setup(self, token: Token) -> str:
        return f"{self.base_url}/ui/setup/{token.reveal()}"

    def setup_in_console(self, organization: str, link: SetupLinkId) -> str:
        """The page on which an owner decides."""
        return f"{self.base_url}/ui/o/{organization}/directories/setup-links/{link}/drafts"

    def proposal(self, organization: str, proposal: ProposalId) -> str:
        """The page on which an owner applies a proposal."""
        return f"{self.base_url}/ui/o/{organization}/settings/proposals/{proposal}"

    def ownership(self, organization: str) -> str:
        """The page on which a new owner says whether the organization is theirs."""
        return f"{self.base_url}/ui/organizations/{organization}/ownership"

    def organization(self, organization: str) -> str:
        """The page of an organization for its members."""
        return f"{self.base_url}/ui/organizations/{organization}"

    def organization_of_platform(self, organization: OrganizationId) -> str:
        """The page on which platform owners decide about the organization."""
        return f"{self.base_url}/ui/platform/organizations/{organization}"

    def invitation(self, token: Token) -> str:
        """The mailed link is short. When it is opened, it redirects to the configured frontend."""
        return f"{self.base_url}/invitations/accept?token={token.reveal()}"
