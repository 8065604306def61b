"""The SQL of agents: until when a service that acts for people may do so by what a code or a session was granted. The rule stands in the
schema, in the function `agent_acts_until`; statements call it for agents alone.
"""

from typing import Final, LiteralString


def acts_until(row: LiteralString) -> LiteralString:
    """The end of what `row` was granted, a code or session with `audiences`, `user_id`, `service_id` and `created_at`. `services` is its
    service. Infinity for a service that is no agent; null where an agent may not act, or no longer.
    """
    return f"""case
               when services.is_agent
               then agent_acts_until({row}.audiences, {row}.user_id, {row}.service_id, {row}.created_at)
               else 'infinity'::timestamptz
           end"""


def may_act(row: LiteralString) -> LiteralString:
    """A condition on `row` as above, which may have no service: the agent may still act for the person. A service that was an agent before
    has lost what was opened until then.
    """
    return f"""case
               when services.is_agent then coalesce({acts_until(row)} > now(), false)
               else coalesce({row}.created_at >= services.agent_since, true)
           end"""


# A condition on `services` and `organizations`: the organization lets no agents act, and the service is one.
AGENTS_ARE_FORBIDDEN: Final = "coalesce(services.is_agent and organizations.agents = 'forbidden', false)"

# A condition on `services` and `consents`, a row of `resource_consents`: it has not ended, and it lets an agent act, if the service is one.
CONSENT_LIVES: Final = """
           case
               when services.is_agent then agent_consent_lives(consents)
               else coalesce(consents.expires_at > now(), true) and coalesce(consents.granted_at >= services.agent_since, true)
           end"""
