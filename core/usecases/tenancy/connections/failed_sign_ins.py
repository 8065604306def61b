"""Failed sign-ins with a password of a directory by LDAP, in the log of sign-ins. The recorder has them, too, for the administrator of the
connection.
"""

from typing import Final

from core.domain.identity.devices import Client
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.directories import AskedPassword
from core.domain.identity.upstream.ldap.answers import BindOutcome
from core.domain.identity.upstream.ldap.settings import ldap_issuer
from core.domain.identity.upstream.providers import OWN_PROVIDER
from core.frozen import Frozen
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from ports.identity.upstream.sign_in import UpstreamLookup
from ports.system import System

_FAILURES: Final = {
    BindOutcome.WRONG: LoginFailure.WRONG_PASSWORD,
    BindOutcome.LOCKED: LoginFailure.THROTTLED,
}


def failure_of(outcome: BindOutcome) -> LoginFailure:
    """What else the directory says is its own, and stands in the recorder."""
    return _FAILURES.get(outcome, LoginFailure.NOT_VOUCHED)


class FailedDirectorySignIns(Frozen):
    lookup: UpstreamLookup
    devices: Devices
    login_events: LoginEvents
    system: System

    async def log(self, asked: AskedPassword, subject: str, failure: LoginFailure, client: Client) -> None:
        """Names the account that is connected to this person of the directory. For somebody unknown, it looks for nobody, so that both take
        the same time. Who sees it: see `audience`.
        """
        directory = asked.directory
        approach = await self.devices.observe(client)
        looked_for = Asserted(ldap_issuer(directory.id), subject or self.system.ids.new().hex)
        met = await self.lookup.meet(
            str(directory.id), looked_for, None, approach, organization=directory.organization, application=asked.application
        )
        await self.login_events.log_failure(failure, OWN_PROVIDER, met.connected, approach, asked.application)
