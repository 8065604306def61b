"""The lines for a framework as a page of the console shows them."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Final

from entrypoints.http.console.organization.applications.making import LinesBlock

_BLOCK: Final = re.compile(r'<pre class="copyable" id="lines-(\w+)-(\w+)"[^>]* data-part="([^"]*)">(.*?)</pre>', re.DOTALL)


def shown_on(page: str, framework: str) -> Mapping[str, LinesBlock]:
    """The blocks that make the program, by the names of blocks."""
    return {name: LinesBlock(part or name, unescape(code)) for key, name, part, code in _BLOCK.findall(page) if key == framework}
