"""A condition, for any statement with parameters, on whether a text names an address."""

from typing import LiteralString


def names(text: LiteralString, key: LiteralString) -> LiteralString:
    """`key` is an address in small letters; the text may have the address percent-encoded, as in a link. A longer address that contains
    this one does not count: joann@acme.example does not name ann@acme.example, and neither does ann@acme.example.org.
    """
    return rf"""
        exists (
            select
              from (values ({key}), (replace({key}, '@', '%%40'))) as written (form)
             cross join lateral (
                       select piece, lead(piece) over (order by place) as next_piece
                         from unnest(string_to_array(lower({text}), written.form)) with ordinality as pieces (piece, place)
                   ) as around
             where around.piece ~ '(^|[^[:alnum:]_.+-]|%%[0-9a-f]{{2}}|\\[bfnrt])$'
               and around.next_piece !~ '^[.-]?[[:alnum:]]'
        )"""
