"""The products that can be tried here: what each needs, and what its trial looks at."""

from collections.abc import Callable, Sequence

from core.frozen import Frozen
from ops.guides.trying import Trial


class Product(Frozen, kw_only=True):
    name: str
    page: str
    """The name of the guide."""
    attempt: Callable[[Trial], None]
    python: Sequence[str] = ()
    """Packages for pip."""
    node: Sequence[str] = ()
    """Packages for npm."""
    debian: Sequence[str] = ()
    """Packages for apt-get."""
