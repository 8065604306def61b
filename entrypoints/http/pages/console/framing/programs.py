"""What people call the program that a request came from."""

from entrypoints.http.pages.console.visit import PageVisit


async def program_in_words(visit: PageVisit, user_agent: str | None) -> str:
    """As in "Firefox on Linux". What nobody has words for is shown as it came. Empty if nothing came."""
    return await visit.postern.identity.devices.called(user_agent) or user_agent or ""
