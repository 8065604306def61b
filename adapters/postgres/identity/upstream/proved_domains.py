"""Which domains an organization has proved, for statements that have its id at hand, as `organization`."""

from typing import LiteralString


def domain_is_proved(address: LiteralString) -> LiteralString:
    """As its own or for a route. `address` is an expression. A domain with other letters is proved in ASCII alone, so addresses written
    otherwise never match.
    """
    return f"({_in_table('domains', address)} or {_in_table('domain_routes', address)})"


def _in_table(table: LiteralString, address: LiteralString) -> LiteralString:
    return f"""exists (
               select
                 from {table}
                where {table}.org_id = %(organization)s::uuid
                  and {table}.verified_at is not null
                  and {table}.domain = lower(substring({address} from '[^@]*$'))
           )"""
