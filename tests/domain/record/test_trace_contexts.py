"""`traceparent`, as the specification of W3C Trace Context has it."""

import pytest

from core.domain.record.stories import TraceContext, read_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        # Only the lowest bit tells of sampling; others are for later versions.
        (f"00-{TRACE}-{SPAN}-ff", True),
        (f"00-{TRACE}-{SPAN}-fe", False),
        # A later version may say more.
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
        (f"cc-{TRACE}-{SPAN}-01-", True),
    ],
)
def test_a_header_is_read(text: str, sampled: bool) -> None:
    assert read_traceparent(text) == TraceContext(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-011",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01 ",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-0x",
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"000-{TRACE}-{SPAN}-01",
        f"0A-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{TRACE}-{SPAN[:-1]}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        # Two headers, as the machinery joins them.
        f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 512}",
        f"00-{chr(0x660) * 31}1-{SPAN}-01",
    ],
)
def test_what_is_no_such_header_is_ignored(text: str) -> None:
    assert read_traceparent(text) is None


@pytest.mark.parametrize("sampled", [True, False])
def test_a_header_that_is_written_can_be_read(sampled: bool) -> None:
    context = TraceContext(TRACE, SPAN, sampled)
    assert read_traceparent(context.header()) == context
    assert len(context.header()) == 55
