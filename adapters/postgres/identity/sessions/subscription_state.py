"""What the tokens of a service say of its user's subscription. Sessions, sign-in and impersonation read it with everything else."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, LiteralString

from core.domain.identity.sessions import NO_SUBSCRIPTION, SubscriptionState

# The current one, or else the youngest: at the end of any statement about the subscriptions of one user of a service.
CURRENT_FIRST: Final = """
     order by subscriptions.status in ('active', 'past_due') desc, subscriptions.created_at desc, subscriptions.id desc
     limit 1
"""

# A part of any statement that reads `users` and a service as `services`: what the tokens of that service say of this person. An active
# subscription whose period has ended counts as expired, even before a job has recorded that; but not one that the payment provider manages.
SUBSCRIPTION_STATE: Final[LiteralString] = f"""(
    select jsonb_build_object(
               'plan', plans.name,
               'features', plans.features,
               'status', case
                             when subscriptions.status = 'active' and not subscriptions.managed and subscriptions.current_period_end <=
                             now() then 'expired'
                             else subscriptions.status
                         end,
               'current_period_end', subscriptions.current_period_end
           )
      from subscriptions
      join plans on plans.id = subscriptions.plan_id
     where subscriptions.user_id = users.id and subscriptions.service_id = services.id
     {CURRENT_FIRST}
)"""


def subscription_state(found: Mapping[str, Any] | None) -> SubscriptionState:
    """What `SUBSCRIPTION_STATE` brought."""
    if found is None:
        return NO_SUBSCRIPTION
    end = datetime.fromisoformat(found["current_period_end"]).astimezone(UTC)
    return SubscriptionState(found["plan"], tuple(found["features"]), found["status"], end)
