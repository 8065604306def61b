"""The subscription state that the tokens of a service carry. Sessions, sign-in and impersonation read that state with everything else."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, LiteralString

from core.domain.identity.sessions import NO_SUBSCRIPTION, SubscriptionState

# The end of any statement about the subscriptions of one user of a service: it picks the current subscription, or else the youngest.
CURRENT_FIRST: Final = """
     order by subscriptions.status in ('active', 'past_due') desc, subscriptions.created_at desc, subscriptions.id desc
     limit 1
"""

# A part of any statement that reads `users` and a service as `services`: the subscription state of this person for the tokens of that
# service. An active subscription whose period has ended counts as expired, even before a job has recorded the end. Only a subscription
# that the payment provider manages stays active until the provider says otherwise.
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
    """Converts the value of `SUBSCRIPTION_STATE`."""
    if found is None:
        return NO_SUBSCRIPTION
    end = datetime.fromisoformat(found["current_period_end"]).astimezone(UTC)
    return SubscriptionState(found["plan"], tuple(found["features"]), found["status"], end)
