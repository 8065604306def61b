"""Platform owners' approvals of own texts, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from adapters.postgres.statements import first, only
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId
from core.domain.platform.governance import OrganizationTexts, StoredText
from core.domain.texts.own_texts import INSTALLATION_TEXTS_TOPIC, ApprovalRules
from core.frozen import Frozen


class _Row(Frozen, kw_only=True):
    id: UUID
    slug: str
    name: str
    version: str
    approved_version: str | None
    changed_at: datetime | None = None
    texts: Sequence[Mapping[str, Any]] | None = None

    def made(self) -> OrganizationTexts:
        return OrganizationTexts(
            organization=OrganizationId(self.id),
            slug=self.slug,
            name=self.name,
            version=self.version,
            approved_version=self.approved_version,
            changed_at=self.changed_at,
            texts=[StoredText(**one) for one in self.texts or ()],
        )


class TextApprovalRows(OnStatements):
    """Implements `ports.platform.TextApprovalStore`."""

    async def list(self, limit: int, most_texts: int) -> Sequence[OrganizationTexts]:
        return [row.made() for row in await self._statements.ask(_Row, _LIST, {"limit": limit, "most_texts": most_texts})]

    async def hold(self, organization: OrganizationId) -> OrganizationTexts | None:
        row = first(await self._statements.ask(_Row, _HOLD, {"organization": organization}))
        return None if row is None else row.made()

    async def approve(self, organization: OrganizationId, version: str | None) -> None:
        await self._statements.tell(_APPROVE, {"organization": organization, "version": version})

    async def rules(self) -> ApprovalRules:
        return only(await self._statements.ask(ApprovalRules, _RULES))

    async def set_rules(self, rules: ApprovalRules) -> None:
        await self._statements.tell(_SET_RULES, {"mails": rules.mails, "pages": rules.pages})
        self._statements.ring(INSTALLATION_TEXTS_TOPIC)


# The texts are read of those organizations alone that are listed.
_LIST: Final = """
    with found as (
             select organizations.id, organizations.slug, organizations.name, organizations.texts_digest as version,
                    organizations.approved_texts as approved_version,
                    coalesce(organizations.approved_texts = organizations.texts_digest, false) as approved, kept.changed_at, kept.texts
               from organizations
               left join (
                             select org_id, max(updated_at) as changed_at, count(*) as texts from organization_texts group by org_id
                         ) as kept on kept.org_id = organizations.id
              where organizations.texts_digest is not null and organizations.status = 'active'
         ),
         counted as (
             select id, slug, name, version, approved_version, approved, changed_at,
                    sum(texts) over (order by approved, changed_at, id rows between unbounded preceding and 1 preceding) as before
               from found
         ),
         listed as materialized (
             select id, slug, name, version, approved_version, approved, changed_at
               from counted
              where coalesce(before, 0) < %(most_texts)s
              order by approved, changed_at, id
              limit %(limit)s
         )
  select id, slug, name, version, approved_version, changed_at,
         (
             select json_agg(json_build_object('language', language, 'key', key, 'text', text) order by language, key)
               from organization_texts
              where org_id = listed.id
         ) as texts
    from listed
   order by approved, changed_at, id
"""

_HOLD: Final = """
    select id, slug, name, coalesce(texts_digest, '') as version, approved_texts as approved_version
      from organizations
     where id = %(organization)s and coalesce(texts_digest, approved_texts) is not null
       for no key update
"""

_APPROVE: Final = "update organizations set approved_texts = %(version)s where id = %(organization)s"

_RULES: Final = """
    select coalesce((select mails from text_approval_rules), true) as mails,
           coalesce((select pages from text_approval_rules), false) as pages
"""

_SET_RULES: Final = """
    insert into text_approval_rules (mails, pages) values (%(mails)s, %(pages)s)
        on conflict (is_only) do update set mails = excluded.mails, pages = excluded.pages
"""
