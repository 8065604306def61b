"""An installation whose platform owner adds custom providers."""

from tests.http import conftest as http
from tests.http.upstream.further import conftest as further

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client
fakes, scene = further.fakes, further.scene
