"""Each module of the basic plan once more, with `response_mode=form_post`."""

from tests.conformance.basic.test_refresh_tokens import *  # noqa: F403
from tests.conformance.basic.test_requests import *  # noqa: F403
from tests.conformance.basic.test_responses import *  # noqa: F403
from tests.conformance.basic.test_userinfo import *  # noqa: F403
