"""Machine keys: how each kind is made."""

from collections.abc import Awaitable, Callable

from core.domain.secrets import Token
from core.domain.tenancy.machine_keys import Key, NewMachineKey, prefix_of


async def add_key(
    add: Callable[[Key, bytes], Awaitable[int | None]], draw: Callable[[], Token], key_of: Callable[[str], Key]
) -> tuple[NewMachineKey[Key], int]:
    """`key_of` makes what is kept of a key with this prefix, and `add` stores it unless another has the prefix. Returns the key, and how
    many there were before.
    """
    while True:
        text = draw()
        key = key_of(prefix_of(text))
        count = await add(key, text.digest())
        if count is not None:
            return NewMachineKey(key, text), count
        # The prefix is taken, which happens once in two thousand million for each existing key. Draw another.
