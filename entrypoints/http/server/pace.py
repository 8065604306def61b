"""How long a client may keep us waiting: a minimum pace over a sliding period."""

from entrypoints.http.server.settings import ServerSettings


class Pace:
    """The pace of one body on its way to us, or of one answer on its way out.

    Our patience is one period long. Waiting uses patience up, each byte that moves gives some patience back, and patience never exceeds one
    period. So the client must keep the pace over any stretch longer than a period, and an earlier good pace does not help: a client that
    sends a byte every few seconds is closed like a silent one. Only waiting counts, not our own work in between.
    """

    __slots__ = ("_earned_by_byte", "_longest", "_patience", "_period")

    def __init__(self, settings: ServerSettings, moved: int = 0) -> None:
        self._period = settings.silence
        self._patience = settings.silence
        # The limit for the whole transfer, even at a good pace: a fixed time, plus what its bytes have earned.
        self._earned_by_byte = 1 / settings.least_bytes_a_second
        self._longest = settings.transfer_patience + moved * self._earned_by_byte

    @property
    def patience(self) -> float:
        """In seconds, from now on."""
        return min(self._patience, self._longest)

    def waited(self, seconds: float, moved: int) -> None:
        """Count a wait of `seconds`, in which `moved` bytes moved and earned time."""
        earned = moved * self._earned_by_byte
        self._patience = min(self._period, self._patience - seconds + earned)
        self._longest += earned - seconds
