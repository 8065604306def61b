"""A new proof in a session that goes on."""

from collections.abc import Mapping
from typing import Any, Final, LiteralString

from core.domain.identity.proofs import Proved

# What an `update` of `sessions` sets. The time of a proof never moves back. A provider may state an older time for its sign-in than the
# session has shown already. Its silence always counts: whoever comes back by a provider that states no time has to be offered the mailed
# code again. A second factor alone says nothing about the first proof.
RENEWED: Final[LiteralString] = """
           proved_at = greatest(sessions.proved_at, %(proved_at)s),
           second_factor_at = greatest(sessions.second_factor_at, %(second_factor_at)s),
           stated_at = case
                           when %(proved_at)s::timestamptz is null then sessions.stated_at
                           when %(stated_at)s::timestamptz = 'epoch' then 'epoch'
                           when %(stated_at)s::timestamptz is not null
                           then greatest(coalesce(sessions.stated_at, sessions.proved_at), %(stated_at)s::timestamptz)
                       end,
           refuses_applications = case
                                      when %(proved_at)s::timestamptz is null then sessions.refuses_applications
                                      else %(refuses_applications)s
                                  end
"""


def proof_parameters(proved: Proved) -> Mapping[str, Any]:
    return {
        "proved_at": proved.at,
        "second_factor_at": proved.second_factor_at,
        "stated_at": proved.stated_at,
        "refuses_applications": proved.refuses_applications,
    }
