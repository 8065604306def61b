"""Which fields a page of the sign-in asks people for, as parts of statements."""

from typing import LiteralString

from adapters.postgres.identity.proofs.sign_in_policy import admits


def is_to_be_asked(since: LiteralString) -> LiteralString:
    """A condition on a row of `profile_fields as fields`, left joined with the person's `profile_values`: a page has to ask the person for
    the field. `since`: when the person came to the keeper of the field.
    """
    return f"""
               (fields.asked_at = 'sign_in' or fields.asked_at = 'registration' and {since} >= fields.created_at)
           and (profile_values.values is null or not profile_values.values ? fields.id::text)
           and (fields.required or profile_values.asked is null or fields.id <> all (profile_values.asked))"""


def owes_answers(person: LiteralString, created_at: LiteralString) -> LiteralString:
    """Whether the page that asks for fields may have something to ask this person, in the flow `flow`. The page itself reads the fields.
    `created_at`: when the account was created.
    """
    values = f"left join profile_values on profile_values.user_id = {person} and profile_values.org_id"
    return f"""%(flow)s::uuid is not null and (
               exists (
                   select
                     from profile_fields as fields
                     {values} is null
                    where fields.org_id is null and fields.asked_at is not null
                      and {is_to_be_asked(created_at)}
               )
            or exists (
                   select
                     from memberships
                     join profile_fields as fields on fields.org_id = memberships.org_id and fields.asked_at is not null
                     {values} = fields.org_id
                    where memberships.user_id = {person} and {is_to_be_asked("memberships.created_at")}
               )
            or exists (
                   select
                     from flows
                     join services on services.id = flows.service_id
                     join profile_fields as fields on fields.org_id = services.org_id and fields.asked_at is not null
                     {values} = fields.org_id
                    where flows.id = %(flow)s and {admits("false", person)} and {is_to_be_asked("now()")}
               )
           )"""
