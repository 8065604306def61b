"""What a test of a directory by LDAP looks at before a person types a password."""

from collections.abc import Sequence

from core.domain.errors import found
from core.domain.identity.upstream.connection_tests import TestedCheck, TestResult
from core.domain.identity.upstream.directories import ConnectedDirectory
from core.domain.identity.upstream.ldap.answers import LdapSite, ldap_site
from core.domain.identity.upstream.ldap.failures import LdapFailed, LdapFault, LdapStep
from core.domain.identity.upstream.ldap.people import surveyed_attributes
from core.domain.identity.upstream.ldap.surveys import lines_of_failure, lines_of_survey
from core.domain.secrets import Secret
from core.frozen import Frozen
from ports.encryption import KeyRing
from ports.identity.upstream.connections import ConnectionLookup
from ports.identity.upstream.ldap import LdapDirectories


class Surveyed(Frozen):
    lines: Sequence[TestedCheck]
    lockout: tuple[int, int] | None = None
    """The threshold and the seconds, if they could be read."""

    @property
    def result(self) -> TestResult:
        return TestResult(checks=self.lines)


class DirectorySurveys(Frozen):
    lookup: ConnectionLookup
    directories: LdapDirectories
    keyring: KeyRing

    def site(self, directory: ConnectedDirectory) -> LdapSite:
        """Raises `LdapFailed` while there is no bind password for these hosts, and `NotFound` for another kind."""
        settings, client = found(directory.ldap, "The provider is not of the kind ldap"), directory.client
        opened = self.keyring.open(client.sealed_secret, client.context) if client.sealed_secret else b""
        site = ldap_site(settings, Secret(opened.decode()))
        if not site.password.reveal():
            raise LdapFailed(LdapStep.BIND, LdapFault.NO_PASSWORD)
        return site

    async def made(self, directory: ConnectedDirectory) -> Surveyed:
        """Every line but the sign-in."""
        settings = found(directory.ldap, "The provider is not of the kind ldap")
        domains = await self.lookup.proved_domains(directory.organization)
        try:
            survey = await self.directories.survey(directory.id, self.site(directory), surveyed_attributes(settings))
        except LdapFailed as failed:
            return Surveyed(lines_of_failure(settings, failed))
        read = survey.lockout
        return Surveyed(lines_of_survey(settings, survey, domains), None if read is None else (read.threshold, read.seconds))
