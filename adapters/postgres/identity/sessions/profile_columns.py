"""What tokens tell of a person besides the account. Sessions, sign-in and userinfo read it with everything else."""

from collections.abc import Mapping
from typing import Any, Final, LiteralString

from core.domain.claims import NO_PROFILE, StandardProfile

# A part of any statement that reads `users`: the person's profile. Null for a person who has set nothing, so that the others cost little.
PROFILE: Final[LiteralString] = """
           case
               when num_nonnulls(users.name, users.given_name, users.family_name, users.username, users.zoneinfo, users.picture_id,
                                 users.language, users.profile_updated_at) > 0
               then jsonb_build_object(
                        'name', users.name, 'given_name', users.given_name, 'family_name', users.family_name, 'username', users.username,
                        'zoneinfo', users.zoneinfo, 'picture', users.picture_id, 'language', users.language,
                        'updated_at', floor(extract(epoch from users.profile_updated_at))::bigint
                    )
           end"""
# The columns that `PROFILE` reads, for a statement that passes them on.
PROFILE_COLUMNS: Final = "name, given_name, family_name, username, zoneinfo, picture_id, language, profile_updated_at"


def profile(found: Mapping[str, Any] | None) -> StandardProfile:
    """Converts the value of `PROFILE`."""
    return NO_PROFILE if found is None else StandardProfile(**found)


def tells_more(service: LiteralString, organization: LiteralString, person: LiteralString) -> LiteralString:
    """Whether the service may learn more of the person than the account: it has claims or roles, or the person is in a team of its
    organization. `ServiceFacts` are the answer to that, and cost one more round trip. Each part is one look into an index.
    """
    return f"""(
               exists (select from service_claims where service_claims.service_id = {service} offset 0)
               or exists (select from service_roles where service_roles.service_id = {service} offset 0)
               or exists (select from team_members where team_members.user_id = {person} and team_members.org_id = {organization} offset 0)
           )"""
