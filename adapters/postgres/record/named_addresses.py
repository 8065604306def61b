"""Whether a text names an address, as a part of any statement with parameters."""

from typing import LiteralString


def names(text: LiteralString, key: LiteralString) -> LiteralString:
    """`key` is an address in small letters; the text may have them percent-encoded, as in a link. One that merely contains the
    address is another: as joann@acme.example contains ann@acme.example, and ann@acme.example.org does.
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
