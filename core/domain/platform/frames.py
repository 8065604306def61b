"""What the frame of a page of the console says beside the page itself."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from core.domain.identity.account_summaries import AdministeredOrganization
from core.domain.platform.todos import AnyTodo
from core.frozen import Frozen

NO_TODOS: Final[Mapping[AnyTodo, int]] = MappingProxyType({})


class FrameFacts(Frozen):
    places: Sequence[AdministeredOrganization] = ()
    """The organizations that the person looks after, the one of the page among them."""
    todos: Mapping[AnyTodo, int] = NO_TODOS
    """What waits for somebody's hand in the place of the page."""
