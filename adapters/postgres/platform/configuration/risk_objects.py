"""The statements for rules for risk, of organizations and of the installation, as in `organization_objects`.

Rules name applications by id, and exceptions teams; a document names both by slug. What is gone keeps its id, so that the rule reads as it
stands. An exception of a person is in no document, as people are in none, and since when a rule counts is nobody's to say.
"""

from typing import Final, LiteralString

_POLICIES: Final = """
    coalesce(
        (
            select jsonb_agg(
                       case when said.rule -> 'when' ? 'services' then jsonb_set(said.rule, '{when,services}', (
                           select jsonb_agg(coalesce(services.slug, named.id))
                             from jsonb_array_elements_text(said.rule #> '{when,services}') as named (id)
                             left join services on services.org_id = organizations.id and services.id = named.id::uuid
                       )) else said.rule end
                       order by stored.place
                   )
              from jsonb_array_elements(organizations.risk_policies) with ordinality as stored (rule, place)
             cross join lateral (select stored.rule - 'counts_since' as rule) as said
        ),
        '[]'
    )
"""

_EXCEPTIONS: Final = """
    coalesce(
        (
            select jsonb_agg(
                       case when teams.slug is null then stored.one else jsonb_set(stored.one, '{value}', to_jsonb(teams.slug)) end
                       order by stored.place
                   )
              from jsonb_array_elements(organizations.risk_exceptions) with ordinality as stored (one, place)
              left join teams on stored.one ->> 'kind' = 'team' and teams.org_id = organizations.id
                             and teams.id::text = stored.one ->> 'value'
             where stored.one ->> 'kind' <> 'person'
        ),
        '[]'
    )
"""

RISK_POLICIES: Final[LiteralString] = f"""
    select organizations.slug as organization,
           jsonb_build_object('policies', {_POLICIES}, 'exceptions', {_EXCEPTIONS}) as fields
      from organizations
"""

PLATFORM_RISK_POLICIES: Final = """
    select '' as organization,
           jsonb_build_object(
               'policies', coalesce(
                   (
                       select jsonb_agg(kept.one - 'counts_since' order by kept.place)
                         from jsonb_array_elements(stored.policies) with ordinality as kept (one, place)
                   ),
                   '[]'
               ),
               'exceptions', coalesce(
                   (
                       select jsonb_agg(kept.one order by kept.place)
                         from jsonb_array_elements(stored.exceptions) with ordinality as kept (one, place)
                        where kept.one ->> 'kind' <> 'person'
                   ),
                   '[]'
               )
           ) as fields
      from (values (true)) as this (installation)
      left join installation_risk_policies as stored on this.installation
"""
