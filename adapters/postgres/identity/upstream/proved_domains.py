"""Which domains an organization has proved, for statements that have its id at hand, as `organization`."""

from typing import LiteralString


def domain_is_proved(address: LiteralString) -> LiteralString:
    """`address` is an expression. A domain with other letters is proved in ASCII alone, so addresses written otherwise never match."""
    return f"""exists (
               select
                 from domains
                where domains.org_id = %(organization)s::uuid
                  and domains.verified_at is not null
                  and domains.domain = lower(substring({address} from '[^@]*$'))
           )"""
