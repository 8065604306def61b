"""Organizations' languages in PostgreSQL. `adapters/postgres/branding.py` reads them together with the looks, for pages and mails."""

from adapters.postgres.statements import first_made
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId
from core.domain.languages import kept_languages, restored_languages
from core.domain.tenancy.texts import SpokenLanguages
from core.frozen import Frozen


class _Kept(Frozen):
    languages: str | None


class SpokenLanguageRows(OnStatements):
    """Implements `ports.tenancy.organizations.SpokenLanguageStore`."""

    async def find(self, organization: OrganizationId) -> SpokenLanguages | None:
        return first_made(
            await self._statements.ask(_Kept, "select languages from organizations where id = %(id)s", {"id": organization}),
            lambda row: SpokenLanguages(restored_languages(row.languages)),
        )

    async def save(self, organization: OrganizationId, spoken: SpokenLanguages) -> None:
        parameters = {"id": organization, "languages": kept_languages(spoken.languages)}
        await self._statements.tell("update organizations set languages = %(languages)s where id = %(id)s", parameters)
