"""Whom and what a sentence names, in an organization: its members by the words of their names and addresses, any of its people by the whole
address, and what has a name of its own. One statement, whose cost does not grow with the members: see `member_words`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, has_come, shown_name
from core.domain.identifiers import OrganizationId
from core.domain.platform.searches import NamedKind, NamedOne, NameTerm

# What comes after each word that begins with a text, and after a text that ends with its word: a space comes before this mark.
_LAST: Final = "\U0010ffff"
_AFTER_A_SPACE: Final = "!"
_ENDS: Final = r"\M"
_MOST_OF_A_TERM: Final = 24
"""Of the members that one term finds, those that come first by the rest of their name. Of the things of a kind, so many are compared."""
_MOST_READ: Final = 1000
"""Of the things of one kind. An organization with more finds the others by the search."""


def parameters_of(
    organization: OrganizationId, terms: Sequence[NameTerm], addresses: Sequence[str], kinds: Collection[NamedKind], most: int
) -> Mapping[str, Any]:
    said = [storable_text(one.said) for one in terms]
    words = [word for word, term in zip(said, terms, strict=True) if term.is_whole and " " not in word]
    begun = [word for word, term in zip(said, terms, strict=True) if not term.is_whole]
    parts = [*(one + _ENDS for one in words), *begun]
    return {
        "organization": organization,
        "said": said,
        "until": [word + (_AFTER_A_SPACE if term.is_whole else _LAST) for word, term in zip(said, terms, strict=True)],
        "is_whole": [term.is_whole for term in terms],
        "weights": [term.weight for term in terms],
        # Letters, digits and spaces alone. Nothing has a name with the one that stands here if there are no words.
        "pattern": rf"\m({'|'.join(parts) or chr(1)})",
        "squashed": [one.replace(" ", "") for one in said],
        "addresses": [storable_text(one) for one in addresses],
        "kinds": list(kinds),
        "most": most,
        "most_of_a_term": _MOST_OF_A_TERM,
        "most_read": _MOST_READ,
    }


def named_one(*, kind: str, id: UUID, name: str | None, beside: str) -> NamedOne:  # noqa: A002 - the name of the column
    return NamedOne(kind=NamedKind(kind), id=id, name=name, beside=beside)


def _things(kind: LiteralString, table: LiteralString, slug: LiteralString = "''") -> LiteralString:
    return f"""
           (select '{kind}' as kind, matching.id, matching.name, matching.slug as beside, scored.score
              from (
                       select read.*, concat(' ', plain_name(read.name), ' ') as plain
                         from (
                                  select id, name, {slug} as slug
                                    from {table}
                                   where org_id = %(organization)s and '{kind}' = any(%(kinds)s)
                                   limit %(most_read)s
                              ) as read
                        where lower(read.name) ~ %(pattern)s or read.slug = any(%(said)s)
                           or replace(lower(read.name), ' ', '') = any(%(squashed)s)
                        limit %(most_of_a_term)s
                   ) as matching
             cross join lateral (
                       select sum(weight) as score
                         from terms
                        where strpos(plain, concat(' ', said, case when is_whole then ' ' end)) > 0 or said = slug
                   ) as scored
             order by scored.score desc nulls last, matching.name
             limit %(most)s)"""


# Whoever has an address is looked for in both kinds of ties, also if there is nobody with it: nothing is done for an account that is not
# done without one.
NAMED: Final[LiteralString] = f"""
    with terms as (
             select *
               from unnest(%(said)s::text[], %(until)s::text[], %(is_whole)s::boolean[], %(weights)s::int[])
                 as term (said, until, is_whole, weight)
         ),
         worded as (
             select membership_id, sum(weight) as score
               from (
                        -- The name and the address may both have the word.
                        select distinct found.membership_id, terms.said, terms.is_whole, terms.weight
                          from terms
                         cross join lateral (
                                   select membership_id
                                     from member_words
                                    where org_id = %(organization)s and word >= terms.said collate "C" and word < terms.until collate "C"
                                    order by word
                                    limit %(most_of_a_term)s
                               ) as found
                         where 'member' = any(%(kinds)s)
                    ) as meant
              group by membership_id
              order by score desc, membership_id
              limit %(most)s
         ),
         addressed as (
             select coalesce(users.id, '00000000-0000-0000-0000-000000000000') as user_id
               from unnest(%(addresses)s::text[]) as address
               left join users on users.email_key = address
         ),
         found as (
                 select 'member' as kind, users.id, case when {IS_OWN_MEMBERSHIP} then {shown_name("users")} end as name,
                        users.email as beside, worded.score
                   from worded
                   join memberships on memberships.id = worded.membership_id
                   join users on users.id = memberships.user_id
              union all
                 select 'member', users.id, case when {IS_OWN_MEMBERSHIP} then {shown_name("users")} end, users.email, 1000
                   from addressed
                   join memberships on memberships.user_id = addressed.user_id and memberships.org_id = %(organization)s
                   join users on users.id = memberships.user_id
                  where 'member' = any(%(kinds)s)
              union all
                 select 'end_user', users.id, case when used.came then {shown_name("users")} end, users.email, 900
                   from addressed
                  cross join lateral (
                            select bool_or({has_come()}) as came
                              from service_users
                              join services on services.id = service_users.service_id
                             where service_users.user_id = addressed.user_id and service_users.org_id = %(organization)s
                        ) as used
                   join users on users.id = addressed.user_id
                  where used.came is not null and 'end_user' = any(%(kinds)s)
              union all
{_things("application", "services", "slug")}
              union all
{_things("api", "resource_servers")}
              union all
{_things("team", "teams", "slug")}
              union all
{_things("role", "roles", "slug")}
              union all
{_things("directory", "upstream_providers")}
              union all
{_things("webhook", "webhooks")}
         )
    select kind, id, name, beside
      from (
               select distinct on (id) kind, id, name, beside, score from found order by id, score desc
           ) as once
     order by score desc nulls last, kind, coalesce(name, beside), id
     limit %(most)s
"""
