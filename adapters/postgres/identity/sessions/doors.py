"""What the rules for risk of organizations have said of a session's sign-in, as columns of the session and parts of statements."""

from collections.abc import Mapping
from typing import Any, LiteralString

from adapters.postgres.arrays import array
from core.domain.identity.sessions import NOT_JUDGED, Doors


def door_parameters(doors: Doors) -> Mapping[str, Any]:
    """The columns `let_in_by` and `kept_out_by`. Both are null for a sign-in that no rule was asked about."""
    if doors == NOT_JUDGED:
        return {"let_in_by": None, "kept_out_by": None}
    return {"let_in_by": array(one.hex for one in doors.let_in_by), "kept_out_by": array(one.hex for one in doors.kept_out_by)}


def is_kept_out_of_service() -> LiteralString:
    """Whether the rules for risk keep this session out of `services`: out of its organization, or out of it alone."""
    return f"""(
               {is_kept_out()}
            or organizations.risk_counts_since is not null and sessions.impersonator_id is null
           and coalesce(services.id = any (sessions.kept_out_by), false)
           )"""


def is_kept_out(organization: LiteralString = "organizations", session: LiteralString = "sessions") -> LiteralString:
    """Whether the organization's rules for risk keep this session out of it. A session that the rules have not judged comes in if it is
    older than the first of them that counts. A session of the organization itself was judged when it was opened, and a platform owner who
    acts for somebody has not signed in as them.
    """
    return f"""(
               {organization}.risk_counts_since is not null and {session}.impersonator_id is null
           and {session}.organization_id is distinct from {organization}.id
           and (coalesce({organization}.id = any ({session}.kept_out_by), false)
                or {session}.created_at >= {organization}.risk_counts_since
                   and not coalesce({organization}.id = any ({session}.let_in_by), false))
           )"""
