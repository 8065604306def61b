"""Headers that belong to single endpoints. A declaration names those that its handler reads, and those that its good answers have; the
description follows from that. What all requests and answers may have is described once (`entrypoints/http/description/openapi.py`).
"""

from typing import Final

from core.frozen import Frozen


class RequestHeader(Frozen):
    """One that a handler reads, by `Request.says`. None is required: a handler says what it does without it."""

    name: str
    text: str
    example: str

    @property
    def key(self) -> bytes:
        """As a request has it."""
        return self.name.lower().encode()


class AnswerHeader(Frozen):
    """One that good answers have."""

    name: str
    text: str
    example: str
    always: bool = True
    """Whether all answers of that status have it."""


DEVICE_TOKEN: Final = RequestHeader(
    "X-Device-Token",
    "The device token that an earlier sign-in on this device answered with. Browsers send it as a cookie instead.",
    "8fKq2ZrWm1LcVb6NsXe0HjUo5TgPaYd3QiRl7wBzMx4",
)
DEVICE_TRUST_TOKEN: Final = RequestHeader(
    "X-Device-Trust-Token",
    "The `device_trust_token` of an earlier sign-in, with which this device may skip the second factor. It has an effect only beside the"
    " device token. Browsers send it as a cookie instead.",
    "3nYc8RqWz1LmVb6KsXe0HjUo5TgPaFd2uQiRl7wBzMx",
)
NEW_DEVICE_TOKEN: Final = AnswerHeader(
    DEVICE_TOKEN.name,
    "The device token: keep it, and send it with the next sign-in and each refresh. It is absent if you owe a second factor, and for a"
    " device that only looks like a trusted one.",
    DEVICE_TOKEN.example,
    always=False,
)
COOKIES: Final = AnswerHeader(
    "Set-Cookie",
    "For browsers: the device token and the trust token as cookies.",
    f"postern_device={DEVICE_TOKEN.example}; Max-Age=34560000; Path=/; HttpOnly; SameSite=Lax",
    always=False,
)
LOCATION: Final = AnswerHeader("Location", "Where the browser goes on.", "https://id.example.org/ui/sign-in")
KEPT_FOR: Final = AnswerHeader("Cache-Control", "Who may keep the answer, and for how many seconds.", "public, max-age=300")
