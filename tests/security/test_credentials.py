"""The allow-list: which kinds of credential open which route. The table below is written by hand, for readers. A route that is not in the
table fails, and so does a route that admits a kind that the table does not name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from core.domain.federation.oauth.oidc import BACKCHANNEL_ENDPOINT, PUSHED_AUTHORIZATION_ENDPOINT
from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication
from entrypoints.http.console.kit.declaring import offers, stated
from entrypoints.http.console.pages import CONSOLE
from entrypoints.http.machinery.accepts import Json
from entrypoints.http.machinery.answers import EMPTY_OBJECT, Answer, EmptyObject
from entrypoints.http.machinery.browsers import IN_FLOW, BindsForms, BoundForm, in_browser
from entrypoints.http.machinery.callers import (
    CLIENT,
    MEMBER,
    OPENID_SESSION,
    OWNER_IN_PERSON_OF_INACTIVE,
    PLATFORM_OWNER,
    PREAUTHENTICATED,
    CallerRule,
    MemberRule,
    SessionRule,
    able,
)
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, parameters
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.pages.kit.declaring import page
from entrypoints.http.routes import ROUTES
from tests.http import conftest as http
from tests.http.client import Client, Pairs
from tests.http.people import People
from tests.security.credentials import CONTEXTS, IN_BROWSERS, KINDS, PEOPLE, SESSIONS, Kind, Wallet

database_url, postern, people = http.database_url, http.postern, http.people

SOME_ID: Final = "0199d3a0-0000-7000-8000-000000000001"

# The first columns are about sessions. PEOPLE: m member, a admin, o owner, g platform owner who is a member, x owner of another
# organization. IN: a session on the platform (p), in the person's organization (o), or in a service of it (s). AS OTHERS: whether an
# impersonator passes too. BESIDES: the other credentials that pass, a browser's session included; @ stands for sessions of applications,
# with openid or without; & for API keys of any service, which asks about its own people, as bearer tokens, too. Management keys: org-key
# has every capability, powerless-org-key none that an endpoint names, platform-key every
# capability of the platform. What is closed to keys of an organization:
#   - GET and PATCH of the organization itself: the answer is the caller's membership
#   - the test of the mail server: the mail goes to the caller
#   - what the owner alone may do: deleting the organization or a service, roles of members, ownership, paying, adopting keys
#   - management keys, SCIM tokens and set-up links: a key makes no further credentials that manage the organization
#   - disabling a member's second factor, which needs a fresh proof
# What is closed to keys of the platform: impersonation, platform owners, deleting an organization, disabling a second factor, and keys.
# "everybody" passes with any credential or with none.
# Pages of the console have no lines: each has the rule of an endpoint, for the same people with a session of their browser in place of a
# token (`test_a_page_of_the_console_has_the_rule_of_its_endpoint`).
APPLICATIONS: Final = "application,application-with-openid"
KEYS: Final = "key,key as token,key of another"
TABLE: Final = """
PEOPLE  IN   AS OTHERS  BESIDES   ROUTE

# Operations, and what verifies our tokens
everybody                         GET    /.well-known/audit-export-keys.json
everybody                         GET    /.well-known/authzen-configuration
everybody                         GET    /.well-known/change-password
everybody                         GET    /.well-known/jwks.json
everybody                         GET    /.well-known/oauth-authorization-server
everybody                         GET    /.well-known/openid-configuration
everybody                         GET    /.well-known/passkey-endpoints
everybody                         GET    /.well-known/webauthn
everybody                         GET    /.well-known/security.txt
everybody                         GET    /.well-known/ssf-configuration
everybody                         GET    /favicon.ico
everybody                         POST   /bound-session
everybody                         POST   /bound-session/renew
everybody                         GET    /health
everybody                         GET    /health/live
everybody                         GET    /health/ready
everybody                         GET    /robots.txt
everybody                         GET    /metrics
everybody                         GET    /openapi.json

# Pages
everybody                         GET    /
everybody                         GET    /assets/{digest}/{name}
everybody                         GET    /.postern/assets/{digest}/{name}
.....   ...  no         -         GET    /.postern/return
.....   ...  no         -         GET    /.postern/sign-in
.....   ...  no         -         GET    /.postern/sign-out
.....   ...  no         -         GET    /proxy/check
.....   ...  no         -         POST   /proxy/check
.....   ...  no         -         PUT    /proxy/check
.....   ...  no         -         PATCH  /proxy/check
.....   ...  no         -         DELETE /proxy/check
.....   ...  no         -         OPTIONS /proxy/check
everybody                         GET    /auth/verify-email
everybody                         GET    /auth/{connection_id}/password
.....   ...  -          flow      POST   /auth/{connection_id}/password
everybody                         GET    /auth/{provider}
everybody                         GET    /auth/{provider}/callback
everybody                         POST   /auth/{provider}/callback
everybody                         GET    /docs
everybody                         GET    /docs/errors
everybody                         POST   /docs/errors
everybody                         GET    /docs/guides
everybody                         GET    /docs/guides/{guide}
everybody                         GET    /docs/{chapter}
everybody                         GET    /invitations/accept
everybody                         GET    /ui/invitations/accept
everybody                         POST   /ui/invitations/accept
everybody                         GET    /ui/invitations/accept/password
.....   ...  -          flow      POST   /ui/invitations/accept/password
everybody                         GET    /ui/invitations/accepted
everybody                         GET    /ui/invitations/declined

# The pages behind a set-up link: its browser alone
everybody                         GET    /ui/setup/{token}
.....   ...  -          setup     POST   /ui/setup/{token}
.....   ...  -          setup     GET    /ui/setup/of/{link_id}
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/drafts/{draft_id}/finish
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/drafts/{draft_id}/remove
.....   ...  -          setup     GET    /ui/setup/of/{link_id}/domain
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/domain
.....   ...  -          setup     GET    /ui/setup/of/{link_id}/domain/{draft_id}
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/domain/{draft_id}/look
.....   ...  -          setup     GET    /ui/setup/of/{link_id}/connection
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/connection
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/connection/metadata
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/connection/values
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/connection/address
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/connection/client
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/connection/description
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/connection/test
.....   ...  -          setup     GET    /ui/setup/of/{link_id}/scim
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/scim
.....   ...  -          setup     GET    /ui/setup/of/{link_id}/siem
.....   ...  -          setup     POST   /ui/setup/of/{link_id}/siem

# Further pages
everybody                         GET    /ui/lock-account
everybody                         POST   /ui/lock-account
everybody                         GET    /ui/lift-rules
everybody                         POST   /ui/lift-rules
everybody                         GET    /ui/password-chosen
everybody                         GET    /ui/check-mail
.....   ...  -          flow      POST   /ui/check-mail/code
.....   ...  -          flow      POST   /ui/check-mail/resend
everybody                         GET    /ui/provider-address
.....   ...  -          flow      POST   /ui/provider-address
everybody                         GET    /ui/provider-address/code
.....   ...  -          flow      POST   /ui/provider-address/code
.....   ...  -          browser   GET    /ui/choose-organization
.....   ...  -          browser   POST   /ui/choose-organization
everybody                         GET    /saml/sp/{connection_id}
everybody                         POST   /saml/sp/{connection_id}/acs
everybody                         GET    /saml/sp/{connection_id}/slo
everybody                         POST   /saml/sp/{connection_id}/slo
everybody                         GET    /saml/sp/{connection_id}/start
everybody                         GET    /ui/connections/test
.....   ...  -          flow      POST   /ui/connections/test
everybody                         GET    /ui/device
.....   ...  -          flow      POST   /ui/device
everybody                         GET    /ui/device/approved
.....   ...  -          browser   GET    /ui/device/decision
.....   ...  -          browser   POST   /ui/device/decision
everybody                         GET    /ui/device/denied
everybody                         GET    /ui/forgot-password
.....   ...  -          flow      POST   /ui/forgot-password
.....   ...  -          flow      POST   /ui/sign-in/mail-link
everybody                         GET    /ui/register
.....   ...  -          flow      POST   /ui/register
everybody                         GET    /ui/reset-password
everybody                         POST   /ui/reset-password
everybody                         GET    /ui/choose-account
.....   ...  -          flow      POST   /ui/choose-account
.....   ...  -          browser   GET    /ui/accounts
.....   ...  -          flow      POST   /ui/accounts
.....   ...  -          flow      POST   /ui/accounts/sign-out
.....   ...  -          browser   GET    /ui/consent
.....   ...  -          browser   POST   /ui/consent
.....   ...  -          browser   GET    /ui/accept-terms
.....   ...  -          browser   POST   /ui/accept-terms
.....   ...  -          browser   GET    /ui/answers
.....   ...  -          browser   POST   /ui/answers
.....   ...  -          browser   GET    /ui/passkey-offer
.....   ...  -          browser   POST   /ui/passkey-offer
.....   ...  -          browser   GET    /ui/passkey-offer/passkey
.....   ...  -          browser   POST   /ui/passkey-offer/passkey
.....   ...  -          browser   GET    /ui/passkey-upgrade
.....   ...  -          browser   POST   /ui/passkey-upgrade
.....   ...  -          browser   POST   /ui/passkey-upgrade/options
.....   ...  -          browser   GET    /ui/confirm-membership
.....   ...  -          browser   POST   /ui/confirm-membership
.....   ...  -          browser   GET    /ui/second-factor-required
.....   ...  -          browser   POST   /ui/second-factor-required
everybody                         GET    /ui/authorize
everybody                         GET    /ui/sign-in
.....   ...  -          flow      POST   /ui/sign-in
everybody                         GET    /ui/sign-in/link
.....   ...  -          flow      POST   /ui/sign-in/link
everybody                         GET    /ui/sign-in/lost-factor
.....   ...  -          flow      POST   /ui/sign-in/passkey
.....   ...  -          flow      POST   /ui/sign-in/passkey/options
everybody                         GET    /ui/sign-in/password
.....   ...  -          flow      POST   /ui/sign-in/password
everybody                         GET    /ui/sign-in/second-factor
.....   ...  -          flow      POST   /ui/sign-in/second-factor
.....   ...  -          flow      POST   /ui/sign-in/second-factor/passkey
.....   ...  -          flow      POST   /ui/sign-in/second-factor/passkey/options
.....   ...  -          browser,ended-browser,flow  POST   /ui/sign-out
.....   ...  -          browser,ended-browser,flow  POST   /ui/sign-out/all
.....   ...  -          flow      POST   /ui/stop-acting
everybody                         GET    /ui/signed-out
everybody                         GET    /ui/set-password
everybody                         POST   /ui/set-password
everybody                         GET    /ui/verify-email
everybody                         POST   /ui/verify-email
everybody                         GET    /ui/verify-email/done
everybody                         GET    /ui/verify-email/here
.....   ...  -          browser   POST   /ui/verify-email/here
everybody                         GET    /ui/verify-email/new-password
everybody                         POST   /ui/verify-email/new-password
everybody                         GET    /ui/verify-email/not-me
everybody                         POST   /ui/verify-email/not-me

# Where applications send people
everybody                         GET    /oauth/authorize
everybody                         POST   /oauth/authorize
everybody                         GET    /oauth/logout
everybody                         GET    /saml/{org_slug}/{service_slug}/authenticate
everybody                         GET    /saml/{org_slug}/{service_slug}/metadata
everybody                         GET    /saml/{org_slug}/{service_slug}/sso
everybody                         POST   /saml/{org_slug}/{service_slug}/sso
everybody                         GET    /saml/{org_slug}/{service_slug}/slo
everybody                         POST   /saml/{org_slug}/{service_slug}/slo
everybody                         GET    /ui/saml
.....   ...  -          browser,flow  POST   /ui/saml
.....   ...  -          browser,flow  POST   /ui/saml/elsewhere
.....   ...  -          browser,flow  POST   /ui/saml/later
everybody                         GET    /ui/saml/sign-out
.....   ...  -          browser   GET    /ui/open/{org_slug}/{service_slug}
everybody                         POST   /oauth/logout
.....   ...  -          browser,ended-browser,flow  POST   /oauth/logout/confirm

# Pages of one's own account
.....   ...  -          browser   GET    /ui
.....   ...  -          browser   GET    /ui/applications
.....   ...  -          browser   GET    /ui/applications/{service_id}/revoke
.....   ...  -          browser   POST   /ui/applications/{service_id}/revoke
.....   ...  -          browser   GET    /ui/applications/{service_id}/apis/{resource_id}/revoke
.....   ...  -          browser   POST   /ui/applications/{service_id}/apis/{resource_id}/revoke
.....   ...  -          browser   GET    /ui/applications/keys/{user_key_id}/end
.....   ...  -          browser   POST   /ui/applications/keys/{user_key_id}/end
.....   ...  -          browser   GET    /ui/requests
.....   ...  -          browser   GET    /ui/requests/{request_id}
.....   ...  -          browser   POST   /ui/requests/{request_id}
.....   ...  -          browser   POST   /ui/requests/{request_id}/refuse
.....   ...  -          browser   POST   /ui/requests/{request_id}/block
.....   ...  -          browser   POST   /ui/requests/blocked/{service_id}/end
.....   ...  -          browser   GET    /ui/keys/{org_slug}/{service_slug}
.....   ...  -          browser   GET    /ui/keys/{org_slug}/{service_slug}/new
.....   ...  -          browser   POST   /ui/keys/{org_slug}/{service_slug}/new
.....   ...  -          browser   GET    /ui/keys/{org_slug}/{service_slug}/{user_key_id}/end
.....   ...  -          browser   POST   /ui/keys/{org_slug}/{service_slug}/{user_key_id}/end
.....   ...  -          browser   GET    /ui/test-provider/{key}
.....   ...  -          browser   POST   /ui/test-provider/{key}
.....   ...  -          browser   GET    /ui/settings/connections
.....   ...  -          browser   GET    /ui/settings/connections/{provider}/connect
.....   ...  -          browser   POST   /ui/settings/connections/{provider}/connect
.....   ...  -          browser   GET    /ui/connect/{provider}/{request}
.....   ...  -          browser   POST   /ui/connect/{provider}/{request}
.....   ...  -          browser   GET    /ui/settings/connections/{provider}/disconnect
.....   ...  -          browser   POST   /ui/settings/connections/{provider}/disconnect
.....   ...  -          browser   GET    /ui/devices
.....   ...  -          browser   GET    /ui/devices/{device_id}
.....   ...  -          browser   POST   /ui/devices/{device_id}
.....   ...  -          browser   GET    /ui/devices/{device_id}/revoke
.....   ...  -          browser   POST   /ui/devices/{device_id}/revoke
.....   ...  -          browser   GET    /ui/first-steps
.....   ...  -          browser   GET    /ui/organizations
.....   ...  -          browser   GET    /ui/organizations/~new
.....   ...  -          browser   POST   /ui/organizations/~new
.....   ...  -          browser   GET    /ui/organizations/{org_slug}
.....   ...  -          browser   GET    /ui/organizations/{org_slug}/membership
.....   ...  -          browser   POST   /ui/organizations/{org_slug}/membership
.....   ...  -          browser   GET    /ui/organizations/{org_slug}/ownership
.....   ...  -          browser   POST   /ui/organizations/{org_slug}/ownership
.....   ...  -          browser   GET    /ui/organizations/{org_slug}/risk-rules
.....   ...  -          browser   POST   /ui/organizations/{org_slug}/risk-rules
.....   ...  -          browser   GET    /ui/join-requests
.....   ...  -          browser   GET    /ui/organizations/invitations
.....   ...  -          browser   GET    /ui/organizations/invitations/{invitation_id}
.....   ...  -          browser   POST   /ui/organizations/invitations/{invitation_id}
.....   ...  -          browser   GET    /ui/passkeys
.....   ...  -          browser   GET    /ui/passkeys/{passkey_id}
.....   ...  -          browser   POST   /ui/passkeys/{passkey_id}
.....   ...  -          browser   GET    /ui/passkeys/{passkey_id}/remove
.....   ...  -          browser   POST   /ui/passkeys/{passkey_id}/remove
.....   ...  -          browser   GET    /ui/passkeys/add
.....   ...  -          browser   POST   /ui/passkeys/add
.....   ...  -          browser   POST   /ui/passkeys/add/options
.....   ...  -          browser   GET    /ui/terms
.....   ...  -          browser   POST   /ui/terms
.....   ...  -          browser   GET    /ui/lock
.....   ...  -          browser   POST   /ui/lock
.....   ...  -          browser   GET    /ui/password
.....   ...  -          browser   POST   /ui/password
.....   ...  -          browser   GET    /ui/details
.....   ...  -          browser   POST   /ui/details
.....   ...  -          browser   GET    /ui/confirm-address
.....   ...  -          browser   POST   /ui/confirm-address
.....   ...  -          browser   GET    /ui/profile
.....   ...  -          browser   GET    /ui/profile/details
.....   ...  -          browser   POST   /ui/profile/details
.....   ...  -          browser   GET    /ui/profile/email
.....   ...  -          browser   POST   /ui/profile/email
.....   ...  -          browser   POST   /ui/look
.....   ...  -          browser   POST   /ui/profile/language
.....   ...  -          browser   GET    /ui/profile/picture
.....   ...  -          browser   POST   /ui/profile/picture
.....   ...  -          browser   POST   /ui/profile/picture/remove
.....   ...  -          browser   GET    /ui/prove
.....   ...  -          browser   POST   /ui/prove
.....   ...  -          browser   POST   /ui/prove/forgotten
.....   ...  -          browser   POST   /ui/prove/mail
.....   ...  -          browser   POST   /ui/prove/passkey
.....   ...  -          browser   POST   /ui/prove/passkey/options
.....   ...  -          browser   GET    /ui/second-factor
.....   ...  -          browser   POST   /ui/second-factor
.....   ...  -          browser   GET    /ui/second-factor/backup-codes
.....   ...  -          browser   GET    /ui/second-factor/backup-codes/renew
.....   ...  -          browser   POST   /ui/second-factor/backup-codes/renew
.....   ...  -          browser   GET    /ui/second-factor/passkeys
.....   ...  -          browser   POST   /ui/second-factor/passkeys
.....   ...  -          browser   GET    /ui/second-factor/set-up
.....   ...  -          browser   POST   /ui/second-factor/set-up
.....   ...  -          browser   GET    /ui/second-factor/turn-off
.....   ...  -          browser   POST   /ui/second-factor/turn-off
.....   ...  -          browser   GET    /ui/sessions
.....   ...  -          browser   GET    /ui/sessions/{session_id}/end
.....   ...  -          browser   POST   /ui/sessions/{session_id}/end
.....   ...  -          browser   GET    /ui/sessions/end-others
.....   ...  -          browser   POST   /ui/sessions/end-others
.....   ...  -          browser   GET    /ui/sign-ins

# Coming and going
everybody                         POST   /api/auth/forgot-password
everybody                         POST   /api/auth/lookup-email
everybody                         POST   /api/auth/passkeys
everybody                         POST   /api/auth/passkeys/options
everybody                         POST   /api/auth/magic-link
everybody                         POST   /api/auth/login
maogx   pos  yes        ended,@   POST   /api/auth/logout
.....   ...  -          pre-auth  POST   /api/auth/mfa/verify
maogx   po.  no         -         POST   /api/auth/reauthenticate
maogx   po.  no         -         POST   /api/auth/reauthenticate/options
everybody                         POST   /api/auth/refresh
everybody                         POST   /api/auth/register
everybody                         POST   /api/auth/resend-verification
everybody                         POST   /api/auth/reset-password

# One's own
maogx   po.  yes        -         GET    /api/invitations
everybody                         POST   /api/invitations/accept
everybody                         POST   /api/invitations/decline
maogx   po.  yes        -         GET    /api/organizations
maogx   po.  no         -         POST   /api/organizations
maogx   po.  no         -         POST   /api/organizations/{org_slug}/ownership
maogx   po.  no         -         POST   /api/organizations/{org_slug}/select
maogx   pos  yes        @         GET    /api/subscription
maogx   pos  yes        @         GET    /api/user
maogx   po.  no         -         PATCH  /api/user
maogx   po.  no         -         POST   /api/user/change-password
maogx   po.  no         -         GET    /api/privacy/export/{user_id}
maogx   po.  no         -         DELETE /api/privacy/forget/{user_id}
maogx   po.  no         -         GET    /api/privacy/requests/{request_id}
maogx   po.  no         -         GET    /api/user/devices
maogx   po.  no         -         GET    /api/user/devices/{device_id}
maogx   po.  no         -         PATCH  /api/user/devices/{device_id}
maogx   po.  no         -         DELETE /api/user/devices/{device_id}
maogx   pos  yes        @         GET    /api/user/identities
maogx   pos  no         @         POST   /api/user/identities/{provider}/link
maogx   pos  no         @         DELETE /api/user/identities/{provider}
maogx   pos  no         @         GET    /api/provider-token/{provider}
maogx   po.  no         -         DELETE /api/user/mfa
maogx   po.  no         -         POST   /api/user/mfa/backup-codes/regenerate
maogx   po.  no         -         POST   /api/user/mfa/passkeys
maogx   po.  no         -         POST   /api/user/mfa/setup
maogx   po.  no         -         GET    /api/user/mfa/status
maogx   po.  no         -         POST   /api/user/mfa/verify
maogx   po.  no         -         GET    /api/user/passkeys
maogx   po.  no         -         POST   /api/user/passkeys
maogx   po.  no         -         PATCH  /api/user/passkeys/{passkey_id}
maogx   po.  no         -         DELETE /api/user/passkeys/{passkey_id}
maogx   po.  no         -         PUT    /api/user/picture
maogx   po.  no         -         DELETE /api/user/picture
maogx   po.  no         -         POST   /api/user/passkeys/options
maogx   po.  no         -         GET    /api/user/profile
maogx   po.  no         -         PATCH  /api/user/profile
maogx   po.  no         -         GET    /api/user/terms
maogx   po.  no         -         POST   /api/user/terms
maogx   po.  no         -         POST   /api/user/lock
maogx   po.  no         -         GET    /api/user/requests
maogx   po.  no         -         POST   /api/user/requests/{request_id}/allow
maogx   po.  no         -         POST   /api/user/requests/{request_id}/refuse
maogx   po.  no         -         POST   /api/user/requests/{request_id}/block
maogx   po.  no         -         GET    /api/user/blocked-clients
maogx   po.  no         -         DELETE /api/user/blocked-clients/{service_id}
maogx   po.  no         -         POST   /api/user/set-password

# What applications call, as themselves or with a session that somebody opened for them
.....   ...  -          secret-as-password POST /auth/revoke
.....   ...  -          secret-as-password POST /auth/device/code
everybody                         POST   /auth/device/verify
.....   ...  -          secret-as-password POST /auth/token
.....   ...  -          secret-as-password POST /oauth/introspect
.....   ...  -          secret-as-password POST /oauth/par
.....   ...  -          secret-as-password POST /oauth/bc-authorize
everybody                         POST   /oauth/register
.....   ...  -          secret-as-password POST /oauth/revoke
.....   ...  -          secret-as-password POST /oauth/token
.....   ...  -          application-with-openid GET  /oauth/userinfo
.....   ...  -          application-with-openid POST /oauth/userinfo

# What an application calls with a token of its own, where an owner has turned signals on (tests/http/federation/signals)
.....   ...  -          -         GET    /ssf/streams
.....   ...  -          -         POST   /ssf/streams
.....   ...  -          -         PATCH  /ssf/streams
.....   ...  -          -         PUT    /ssf/streams
.....   ...  -          -         DELETE /ssf/streams
.....   ...  -          -         GET    /ssf/status
.....   ...  -          -         POST   /ssf/status
.....   ...  -          -         POST   /ssf/verification
.....   ...  -          -         POST   /ssf/poll/{stream_id}

# The organization that the path names
maog.   po.  yes        -         GET    /api/organizations/{org_slug}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/analytics/failed-logins
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/analytics/login-trends
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/analytics/logins-by-provider
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/analytics/logins-by-service
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/analytics/recent-logins
.ao..   po.  yes        -         PATCH  /api/organizations/{org_slug}
..o..   po.  no         -         DELETE /api/organizations/{org_slug}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/audit-log
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/audit-log/event-types
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/audit-log/{entry_id}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/audit-log/{entry_id}/receivers
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/invitations
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/invitations
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/invitations/{invitation_id}
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/invitations/{invitation_id}/accept
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/join-requests
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/join-requests/{request_id}/approve
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/join-requests/{request_id}/decline
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/members
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/members/{user_id}
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/members/{user_id}
..o..   po.  no         -         PATCH  /api/organizations/{org_slug}/members/{user_id}
.ao..   po.  no         -         DELETE /api/organizations/{org_slug}/members/{user_id}/mfa
maog.   po.  yes        org-key,powerless-org-key GET    /api/organizations/{org_slug}/profile-fields
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/profile-fields
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/profile-fields/{key}
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/profile-fields/{key}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/roles
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/roles
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/roles/{role_id}
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/roles/{role_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/roles/{role_id}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/teams
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/teams
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/teams/{team_slug}
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/teams/{team_slug}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/teams/{team_slug}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/teams/{team_slug}/members
.ao..   po.  no         org-key   PUT    /api/organizations/{org_slug}/teams/{team_slug}/members/{user_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/teams/{team_slug}/members/{user_id}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/mail-budget
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/risk-events
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/risk-policies
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/risk-policies/report
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/sign-in-rules
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/sign-ins
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/sign-in-rules
.ao..   po.  no         org-key   PUT    /api/organizations/{org_slug}/risk-policies
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/terms
..o..   po.  no         -         PUT    /api/organizations/{org_slug}/terms
..o..   po.  no         -         DELETE /api/organizations/{org_slug}/terms
..o..   po.  no         -         POST   /api/organizations/{org_slug}/transfer-ownership
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/users
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/users/{user_id}
maog.   po.  yes        org-key,powerless-org-key GET    /api/organizations/{org_slug}/users/{user_id}/profile
maog.   po.  no         org-key,powerless-org-key PATCH  /api/organizations/{org_slug}/users/{user_id}/profile
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/users/{user_id}/sessions
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/users/{user_id}/lock
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/agent-grants
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/agent-grants/{grant_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/agent-grants/{grant_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/agent-grants
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/members/{user_id}/sessions
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/members/{user_id}/lock

# Its settings
maog.   po.  yes        org-key,powerless-org-key GET    /api/organizations/{org_slug}/branding
.ao..   po.  yes        org-key   PATCH  /api/organizations/{org_slug}/branding
.ao..   po.  yes        org-key   PUT    /api/organizations/{org_slug}/branding/logo
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/branding/logo
maog.   po.  yes        org-key,powerless-org-key GET    /api/organizations/{org_slug}/languages
.ao..   po.  yes        org-key   PATCH  /api/organizations/{org_slug}/languages
.ao..   po.  yes        org-key   PUT    /api/organizations/{org_slug}/branding/dark-logo
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/branding/dark-logo
.ao..   po.  yes        org-key   PUT    /api/organizations/{org_slug}/branding/favicon
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/branding/favicon
.ao..   po.  yes        org-key   PUT    /api/organizations/{org_slug}/branding/background
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/branding/background
maog.   po.  yes        org-key,powerless-org-key GET    /api/organizations/{org_slug}/notice
.ao..   po.  yes        org-key   PUT    /api/organizations/{org_slug}/notice
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/texts/preview
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/mails/{mail}/send-to-me
maog.   po.  yes        org-key,powerless-org-key GET    /api/organizations/{org_slug}/texts
.ao..   po.  yes        org-key   PATCH  /api/organizations/{org_slug}/texts
.ao..   po.  yes        org-key   PUT    /api/organizations/{org_slug}/texts
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/domain
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/domain
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/domain
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/domain/verify
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/domain-routes
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/domain-routes
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/domain-routes/{domain_id}
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/domain-routes/{domain_id}
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/domain-routes/{domain_id}/verify
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/oauth-credentials/{provider}
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/oauth-credentials/{provider}
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/oauth-credentials/{provider}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/upstream-providers
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/upstream-providers
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/upstream-providers/{provider_id}
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/upstream-providers/{provider_id}
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/activate
..o..   po.  no         -         PUT    /api/organizations/{org_slug}/upstream-providers/{provider_id}/assertions
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/assertions/check
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/succeed
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate/waiting/{fingerprint}
..o..   po.  no         -         DELETE /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate/waiting/{fingerprint}
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/upstream-providers/{provider_id}/certificate/former
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/upstream-providers/{provider_id}/exchanges
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/metadata
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/test
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/end
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/go-on
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/keep
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/leave
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/people
..o..   po.  no         -         POST   /api/organizations/{org_slug}/upstream-providers/{provider_id}/runs/{run_id}/take-over
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/todos
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/expiries
maog.   po.  yes        -         GET    /api/organizations/{org_slug}/search
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/configuration
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/configuration/plan
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/configuration/apply
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/proposals
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/proposals
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/proposals/{proposal_id}
.ao..   po.  yes        -         DELETE /api/organizations/{org_slug}/proposals/{proposal_id}
..o..   po.  no         -         POST   /api/organizations/{org_slug}/proposals/{proposal_id}/apply
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/users/{user_id}/offboarding/evidence
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/offboarding-deadline
.ao..   po.  no         org-key   PUT    /api/organizations/{org_slug}/offboarding-deadline
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/offboarding-deadline
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/smtp
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/smtp
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/smtp
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/smtp/test
everybody                         GET    /logos/{digest}
everybody                         GET    /pictures/{picture_id}

# Its hook
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/hooks/sign-in
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/hooks/sign-in/exchanges
..o..   po.  no         -         PUT    /api/organizations/{org_slug}/hooks/sign-in
..o..   po.  no         -         DELETE /api/organizations/{org_slug}/hooks/sign-in
..o..   po.  no         -         POST   /api/organizations/{org_slug}/hooks/sign-in/rotate-secret
..o..   po.  no         -         POST   /api/organizations/{org_slug}/hooks/sign-in/count
..o..   po.  no         -         POST   /api/organizations/{org_slug}/hooks/sign-in/shadow
..o..   po.  no         -         POST   /api/organizations/{org_slug}/hooks/sign-in/try

# Its webhooks
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/webhooks
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/webhooks
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/webhooks/event-types
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/webhooks/{webhook_id}
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/webhooks/{webhook_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/webhooks/{webhook_id}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/webhooks/{webhook_id}/deliveries
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/webhooks/{webhook_id}/replay
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/webhooks/{webhook_id}/rotate-secret
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/webhooks/{webhook_id}/test

# Its SIEM
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/siem
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/siem
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/siem
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/siem/test

# Its directories
.ao..   po.  yes        -         GET    /api/organizations/{org_slug}/scim-tokens
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/scim-tokens
.ao..   po.  yes        -         DELETE /api/organizations/{org_slug}/scim-tokens/{token_id}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/scim/exchanges
.ao..   po.  yes        -         GET    /api/organizations/{org_slug}/scim/settings
..o..   po.  no         -         PATCH  /api/organizations/{org_slug}/scim/settings

# What a directory asks
.....   ...  -          directory GET    /scim/v2/Users
.....   ...  -          directory POST   /scim/v2/Users
.....   ...  -          directory POST   /scim/v2/Users/.search
.....   ...  -          directory GET    /scim/v2/Users/{user_id}
.....   ...  -          directory PUT    /scim/v2/Users/{user_id}
.....   ...  -          directory PATCH  /scim/v2/Users/{user_id}
.....   ...  -          directory DELETE /scim/v2/Users/{user_id}
.....   ...  -          directory GET    /scim/v2/Groups
.....   ...  -          directory POST   /scim/v2/Groups
.....   ...  -          directory POST   /scim/v2/Groups/.search
.....   ...  -          directory GET    /scim/v2/Groups/{group_id}
.....   ...  -          directory PUT    /scim/v2/Groups/{group_id}
.....   ...  -          directory PATCH  /scim/v2/Groups/{group_id}
.....   ...  -          directory DELETE /scim/v2/Groups/{group_id}
.....   ...  -          directory GET    /scim/v2/ServiceProviderConfig
.....   ...  -          directory GET    /scim/v2/ResourceTypes
.....   ...  -          directory GET    /scim/v2/ResourceTypes/{name}
.....   ...  -          directory GET    /scim/v2/Schemas
.....   ...  -          directory GET    /scim/v2/Schemas/{urn}
.....   ...  -          directory POST   /scim/v2/.search
.....   ...  -          directory POST   /scim/v2/Bulk

# Its management keys. A key makes, ends and adopts no keys.
.ao..   po.  yes        -         GET    /api/organizations/{org_slug}/management-keys
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/management-keys
.ao..   po.  yes        -         GET    /api/organizations/{org_slug}/management-keys/{key_id}
.ao..   po.  yes        -         DELETE /api/organizations/{org_slug}/management-keys/{key_id}
..o..   po.  no         -         POST   /api/organizations/{org_slug}/management-keys/{key_id}/adopt

# Its set-up links
.ao..   po.  yes        -         GET    /api/organizations/{org_slug}/setup-links
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/setup-links
.ao..   po.  yes        -         GET    /api/organizations/{org_slug}/setup-links/{link_id}
.ao..   po.  yes        -         DELETE /api/organizations/{org_slug}/setup-links/{link_id}
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/setup-links/{link_id}/release
..o..   po.  no         -         POST   /api/organizations/{org_slug}/setup-links/{link_id}/drafts/{draft_id}/activate

# Its services
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}
.ao..   po.  yes        org-key   PATCH  /api/organizations/{org_slug}/services/{service_slug}
.ao..   po.  yes        org-key   PUT    /api/organizations/{org_slug}/services/{service_slug}/logo
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/logo
..o..   po.  no         -         DELETE /api/organizations/{org_slug}/services/{service_slug}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/api-keys
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/api-keys
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/api-keys/{api_key_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/api-keys/{api_key_id}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/claims
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/claims
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/services/{service_slug}/claims/{claim_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/claims/{claim_id}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/client-secrets
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/client-secrets
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/client-secrets/{client_secret_id}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/assignments
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/assignments
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/assignments/{assignment_id}
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/logout-notices
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/access
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/token-preview
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/users/{user_id}/sign-in-verdicts
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/users/{user_id}/offboarding
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/resource-servers
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/resource-servers
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/resource-servers/{resource_id}
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/resource-servers/{resource_id}
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/resource-servers/{resource_id}
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/resource-servers/{resource_id}/ask-approval
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/resource-servers/{resource_id}/refusals
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/resource-servers/{resource_id}/verify
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/trusted-issuers
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/trusted-issuers
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/trusted-issuers/{rule_id}
.ao..   po.  no         -         PATCH  /api/organizations/{org_slug}/trusted-issuers/{rule_id}
.ao..   po.  no         org-key   DELETE /api/organizations/{org_slug}/trusted-issuers/{rule_id}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/permissions
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/permissions
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/services/{service_slug}/permissions/{permission_key}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/permissions/{permission_key}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/plans
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/plans
.ao..   po.  yes        org-key   PATCH  /api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/plans/{plan_id}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/roles
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/roles
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/roles/{role_slug}
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/saml
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/saml
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/saml
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/saml/certificate
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/saml/certificate
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/saml/certificate/activate
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/saml/exchanges
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/refusals
.ao..   po.  no         org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/saml/metadata
maogx   po.  no         -         GET    /api/organizations/{org_slug}/services/{service_slug}/saml/login
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/proxy
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/services/{service_slug}/proxy
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/proxy/preview
.ao..   po.  yes        -         GET    /api/organizations/{org_slug}/services/{service_slug}/provisioning
.ao..   po.  no         -         PUT    /api/organizations/{org_slug}/services/{service_slug}/provisioning
..o..   po.  no         -         DELETE /api/organizations/{org_slug}/services/{service_slug}/provisioning
..o..   po.  no         -         POST   /api/organizations/{org_slug}/services/{service_slug}/provisioning/activate
..o..   po.  no         -         POST   /api/organizations/{org_slug}/services/{service_slug}/provisioning/end
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/services/{service_slug}/provisioning/exchanges
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/services/{service_slug}/provisioning/people
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/services/{service_slug}/provisioning/people/{user_id}/try-again
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/users/{user_id}/provisioning
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/services/{service_slug}/provisioning/preview/{user_id}
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}
..o..   po.  no         -         POST   /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}/go-on
..o..   po.  no         -         POST   /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}/leave
.ao..   po.  no         -         GET    /api/organizations/{org_slug}/services/{service_slug}/provisioning/runs/{run_id}/people
.ao..   po.  no         -         POST   /api/organizations/{org_slug}/services/{service_slug}/provisioning/stop
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/signals
..o..   po.  no         -         PUT    /api/organizations/{org_slug}/services/{service_slug}/signals
..o..   po.  no         -         DELETE /api/organizations/{org_slug}/services/{service_slug}/signals
.ao..   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/signals/streams/{stream_id}/deliveries
.ao..   po.  yes        org-key   POST   /api/organizations/{org_slug}/services/{service_slug}/signals/streams/{stream_id}/verification
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/user-key-settings
.ao..   po.  no         org-key   PATCH  /api/organizations/{org_slug}/services/{service_slug}/user-key-settings
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/user-keys
maog.   po.  yes        org-key   GET    /api/organizations/{org_slug}/services/{service_slug}/user-keys/{user_key_id}
.ao..   po.  yes        org-key   DELETE /api/organizations/{org_slug}/services/{service_slug}/user-keys/{user_key_id}
.....   ...  -          browser   POST   /api/organizations/{org_slug}/services/{service_slug}/saml/login

# Billing. A session in a service opens the checkout of that very service.
maog.   po.  -          -         POST   /api/organizations/{org_slug}/services/{service_slug}/checkout
..o..   po.  -          -         POST   /api/organizations/{org_slug}/billing/portal
everybody                         POST   /webhooks/billing

# The service interface
.....   ...  -          key       GET    /api/service/analytics
.....   ...  -          key       POST   /api/service/check
.....   ...  -          &         POST   /access/v1/evaluation
.....   ...  -          &         POST   /access/v1/evaluations
.....   ...  -          &         POST   /access/v1/search/action
.....   ...  -          key       POST   /access/v1/search/resource
.....   ...  -          &         POST   /access/v1/search/subject
.....   ...  -          key       GET    /api/service/info
.....   ...  -          key       PATCH  /api/service/info
.....   ...  -          key       GET    /api/service/subscriptions
.....   ...  -          key       POST   /api/service/subscriptions
.....   ...  -          key       GET    /api/service/subscriptions/{user_id}
.....   ...  -          key       PATCH  /api/service/subscriptions/{user_id}
.....   ...  -          key       DELETE /api/service/subscriptions/{user_id}
.....   ...  -          key       GET    /api/service/user-keys
.....   ...  -          key       POST   /api/service/user-keys
.....   ...  -          key       POST   /api/service/user-keys/verify
.....   ...  -          key       GET    /api/service/user-keys/{user_key_id}
.....   ...  -          key       DELETE /api/service/user-keys/{user_key_id}
.....   ...  -          key       GET    /api/service/users
.....   ...  -          key       POST   /api/service/users
.....   ...  -          key       GET    /api/service/users/{user_id}
.....   ...  -          key       PATCH  /api/service/users/{user_id}
.....   ...  -          key       DELETE /api/service/users/{user_id}
.....   ...  -          key       GET    /api/service/users/{user_id}/rights

# The platform
...g.   po.  no         platform-key GET    /api/platform/analytics/overview
...g.   po.  no         platform-key GET    /api/platform/expiries
...g.   po.  no         -         GET    /api/platform/search
...g.   po.  no         -         POST   /api/platform/impersonate/{user_id}
...g.   po.  no         -         GET    /api/platform/management-keys
...g.   po.  no         -         POST   /api/platform/management-keys
...g.   po.  no         -         GET    /api/platform/management-keys/{key_id}
...g.   po.  no         -         DELETE /api/platform/management-keys/{key_id}
...g.   po.  no         -         POST   /api/platform/management-keys/{key_id}/adopt
...g.   po.  no         -         GET    /api/platform/organizations/{org_id}/setup-links
...g.   po.  no         -         POST   /api/platform/organizations/{org_id}/setup-links
...g.   po.  no         -         GET    /api/platform/organizations/{org_id}/setup-links/{link_id}
...g.   po.  no         -         DELETE /api/platform/organizations/{org_id}/setup-links/{link_id}
...g.   po.  no         -         POST   /api/platform/organizations/{org_id}/setup-links/{link_id}/release
...g.   po.  no         platform-key GET    /api/platform/mfa/metrics
...g.   po.  no         platform-key GET    /api/platform/mfa/suspicious
...g.   po.  no         -         GET    /api/platform/resource-servers
...g.   po.  no         -         POST   /api/platform/resource-servers/{resource_id}/approval
...g.   po.  no         -         DELETE /api/platform/resource-servers/{resource_id}/approval
...g.   po.  no         platform-key GET    /api/platform/organizations
...g.   po.  no         -         DELETE /api/platform/organizations/{org_id}
...g.   po.  no         platform-key GET    /api/platform/organizations/{org_id}
...g.   po.  no         platform-key POST   /api/platform/organizations/{org_id}/activate
...g.   po.  no         platform-key POST   /api/platform/organizations/{org_id}/approve
...g.   po.  no         platform-key POST   /api/platform/organizations/{org_id}/reject
...g.   po.  no         platform-key POST   /api/platform/organizations/{org_id}/suspend
...g.   po.  no         platform-key PATCH  /api/platform/organizations/{org_id}/tier
...g.   po.  no         platform-key GET    /api/platform/audit-log
...g.   po.  no         platform-key GET    /api/platform/audit-log/{entry_id}
...g.   po.  no         -         GET    /api/platform/jobs
...g.   po.  no         -         POST   /api/platform/jobs/{job_id}/retry
...g.   po.  no         -         GET    /api/platform/mail-budgets
...g.   po.  no         -         POST   /api/platform/mail-budgets
...g.   po.  no         -         DELETE /api/platform/mail-budgets/{budget_id}/exception
...g.   po.  no         -         GET    /api/platform/signing-keys
...g.   po.  no         -         POST   /api/platform/signing-keys/rotate
...g.   po.  no         -         GET    /api/platform/settings
...g.   po.  no         -         GET    /api/platform/provider-presets
...g.   po.  no         -         GET    /api/platform/providers
...g.   po.  no         -         POST   /api/platform/providers
...g.   po.  no         -         GET    /api/platform/providers/{key}
...g.   po.  no         -         PATCH  /api/platform/providers/{key}
...g.   po.  no         -         DELETE /api/platform/providers/{key}
...g.   po.  no         -         POST   /api/platform/providers/{key}/activate
...g.   po.  no         -         PUT    /api/platform/providers/{key}/logo
...g.   po.  no         -         DELETE /api/platform/providers/{key}/logo
...g.   po.  no         -         GET    /api/platform/texts
...g.   po.  no         -         GET    /api/platform/texts/preview
...g.   po.  no         -         PATCH  /api/platform/texts
...g.   po.  no         -         PUT    /api/platform/texts
...g.   po.  no         -         GET    /api/platform/terms
...g.   po.  no         -         PUT    /api/platform/terms
...g.   po.  no         -         DELETE /api/platform/terms
...g.   po.  no         -         GET    /api/platform/text-rules
...g.   po.  no         -         PUT    /api/platform/text-rules
...g.   po.  no         -         GET    /api/platform/text-approvals
...g.   po.  no         -         POST   /api/platform/organizations/{org_id}/texts/approval
...g.   po.  no         -         DELETE /api/platform/organizations/{org_id}/texts/approval
...g.   po.  no         -         GET    /api/platform/hooks/sign-in
...g.   po.  no         -         GET    /api/platform/hooks/sign-in/exchanges
...g.   po.  no         -         PUT    /api/platform/hooks/sign-in
...g.   po.  no         -         DELETE /api/platform/hooks/sign-in
...g.   po.  no         -         POST   /api/platform/hooks/sign-in/rotate-secret
...g.   po.  no         -         POST   /api/platform/hooks/sign-in/count
...g.   po.  no         -         POST   /api/platform/hooks/sign-in/shadow
...g.   po.  no         -         POST   /api/platform/hooks/sign-in/try
...g.   po.  no         -         GET    /api/platform/risk-policies
...g.   po.  no         -         PUT    /api/platform/risk-policies
...g.   po.  no         -         GET    /api/platform/risk-policies/report
...g.   po.  no         -         GET    /api/platform/risk-events
...g.   po.  no         platform-key POST   /api/platform/users/{user_id}/activate
...g.   po.  no         platform-key POST   /api/platform/users/{user_id}/deactivate
...g.   po.  no         platform-key POST   /api/platform/users/{user_id}/lock
...g.   po.  no         -         POST   /api/platform/owners
...g.   po.  no         -         DELETE /api/platform/owners/{user_id}
...g.   po.  no         platform-key GET    /api/platform/configuration
...g.   po.  no         platform-key POST   /api/platform/configuration/plan
...g.   po.  no         platform-key POST   /api/platform/configuration/apply
...g.   po.  no         platform-key GET    /api/platform/profile-fields
...g.   po.  no         platform-key POST   /api/platform/profile-fields
...g.   po.  no         platform-key PATCH  /api/platform/profile-fields/{key}
...g.   po.  no         platform-key DELETE /api/platform/profile-fields/{key}
...g.   po.  no         platform-key GET    /api/platform/tiers
...g.   po.  no         platform-key GET    /api/platform/users/search
...g.   po.  no         -         DELETE /api/platform/users/{user_id}/mfa
...g.   po.  no         platform-key GET    /api/platform/users/{user_id}/mfa/status
...g.   po.  no         platform-key GET    /api/platform/users/{user_id}/profile
...g.   po.  no         platform-key PATCH  /api/platform/users/{user_id}/profile
"""


ROUTES_BY_RULE: Final[Mapping[CallerRule, Sequence[Endpoint]]] = {
    rule: [one for one in ROUTES if one.caller is rule]
    for rule in dict.fromkeys(one.caller for one in ROUTES)
    if isinstance(rule, MemberRule | SessionRule)
}


async def arrive(_call: Call, _postern: Postern) -> EmptyObject:
    return EMPTY_OBJECT


def door(one: Endpoint) -> Endpoint:
    """The endpoint without the work behind its caller rule, so that a caller who is let in changes nothing for later callers. If a
    credential may come in the body, the handler stays, since only the handler reads it.
    """
    if one.caller in {PREAUTHENTICATED, CLIENT} or (one.caller is OPENID_SESSION and one.method == "POST"):
        return one
    return replace(
        one, handler=arrive, answer_type=EmptyObject, body_type=None, accepts=Json(), query_type=None, also={}, sends={}, status=200
    )


async def passes(client: Client, one: Endpoint, headers: Pairs) -> bool:
    path = one.path
    for name in parameters(path):
        path = path.replace(f"{{{name}}}", "acme" if name == "org_slug" else SOME_ID)
    if path == PUSHED_AUTHORIZATION_ENDPOINT:
        # A client that is let in is told what its request lacks.
        form = [*headers, ("content-type", "application/x-www-form-urlencoded")]
        return b"redirect_uri" in (await client.request(one.method, path, body=b"response_type=code", headers=form)).body
    if path == BACKCHANNEL_ENDPOINT:
        form = [*headers, ("content-type", "application/x-www-form-urlencoded")]
        return b"login_hint" in (await client.request(one.method, path, body=b"scope=openid", headers=form)).body
    if one.caller is CLIENT:
        said = {"/token": {"grant_type": "client_credentials"}, "/code": {}}.get(path[path.rindex("/") :], {"token": "x"})
        return (await client.request(one.method, path, body=said, headers=headers)).status < 400
    presented = any(name == "authorization" for name, _ in headers)
    body: Any = {"code": "123456"} if one.caller is PREAUTHENTICATED and not presented else None
    if isinstance(one.caller, BindsForms) and one.method == "POST":
        # If a form's token is wanted, each kind sends the token that it can make from its own credential.
        body, headers = form_of(one, headers), [*headers, ("content-type", "application/x-www-form-urlencoded")]
    answer = await client.request(one.method, path, body=body, headers=headers)
    assert answer.status < 500, one
    return answer.status not in {401, 403} and not (answer.header("location") or "").startswith("/ui/sign-in?to=")


def form_of(one: Endpoint, headers: Pairs) -> bytes:
    cookies = dict(pair.split("=", 1) for name, value in headers if name == "cookie" for pair in value.split("; "))
    session, browser = cookies.get("__Host-postern_session"), cookies.get("__Host-postern_flow")
    if (setting_up := cookies.get("__Host-postern_setup")) is not None:
        return f"form_token={form_token(Token(setting_up), 'setup')}".encode()
    if (acting := cookies.get("__Host-postern_acting")) is not None:
        return f"form_token={form_token(Token(acting), 'acting')}".encode()
    if session is not None and one.caller is not IN_FLOW:
        return f"form_token={form_token(Token(session), 'session')}".encode()
    if browser is not None:
        return f"form_token={form_token(Token(browser), 'flow ' if one.caller is IN_FLOW else 'browser')}".encode()
    return b"form_token=0123"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    people: str
    contexts: str
    impersonated: bool
    besides: frozenset[str]

    def admits(self, kind: Kind) -> bool:
        if not kind.person:
            return kind.name in self.besides
        return kind.person in self.people and kind.context in self.contexts and (self.impersonated or not kind.impersonated)

    def admits_in_browser(self, kind: Kind) -> bool:
        """Whether a page with the route's rule admits the kind: the same sessions, in the cookie of a browser alone."""
        # The browser of a person who belongs to nothing.
        stranger = kind.name == "browser" and self.people == "maogx"
        return stranger or (kind.in_browser and self.admits(kind))


EVERYBODY: Final = Row("".join(PEOPLE), "".join(CONTEXTS), impersonated=True, besides=frozenset(kind.name for kind in KINDS))
_LINE: Final = re.compile(
    r"(?:everybody|(?P<people>[maogx.]{5}) +(?P<contexts>[pos.]{3}) +(?P<impersonated>yes|no|-) +(?P<besides>\S+)) +(?P<route>[A-Z]+ +/\S*)"
)


def rows() -> dict[str, Row]:
    table: dict[str, Row] = {}
    for line in TABLE.splitlines()[2:]:
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        assert found is not None, line
        route = " ".join(found["route"].split())
        assert route not in table, f"{route} stands there twice"
        table[route] = EVERYBODY
        if found["people"] is not None:
            besides = frozenset({*found["besides"].replace("@", APPLICATIONS).replace("&", KEYS).split(",")} - {"-"})
            table[route] = Row(found["people"], found["contexts"], found["impersonated"] == "yes", besides)
    return table


@pytest.fixture
def client(postern: Postern) -> Client:
    return Client(PosternApplication(postern, replace(http.SETTINGS, rate_limits=False), Endpoints([door(one) for one in ROUTES])))


async def test_the_table_has_every_route_and_page_and_nothing_else(client: Client) -> None:
    assert set(rows()) == {str(one) for one in client.application.endpoints} - {str(one) for one in CONSOLE}


def test_the_table_names_credentials_that_there_are() -> None:
    named = frozenset().union(*(row.besides for row in rows().values()))
    assert named <= {kind.name for kind in KINDS}
    assert len({kind.name for kind in KINDS}) == len(KINDS) == len(SESSIONS) + 32


async def test_each_kind_of_credential_opens_what_the_table_says_and_nothing_else(client: Client, postern: Postern, people: People) -> None:
    wallet, table = Wallet(postern, people), rows()
    wrong: list[str] = []
    endpoints = [one for one in client.application.endpoints if str(one) in table]
    for kind in KINDS:
        headers = await wallet.headers(kind)
        for one in endpoints:
            if kind.name == "browser":
                # A page behind which somebody signs out ends it.
                headers = await wallet.headers(kind)
            came = await passes(client, one, headers)
            if came != table[str(one)].admits(kind):
                wrong.append(f"{kind.name} {'opens' if came else 'does not open'} {one}")
    assert wrong == []


# Pages of the console that stand for no endpoint, with the rule that each states.
STATED: Final[Mapping[str, CallerRule]] = {
    # An earlier address, for those for whom its page was.
    "GET /ui/o/{org_slug}/settings/danger": OWNER_IN_PERSON_OF_INACTIVE,
    # The page leads to five others, and one of them is for every member.
    "GET /ui/o/{org_slug}/settings/brand": MEMBER,
    # Forms that change nothing: a check of the log, and the beginning of a sign-in that ends on a page.
    "POST /ui/o/{org_slug}/audit-log/~verify": able(Capability.AUDIT_LOGS_VIEW, impersonated=True),
    "POST /ui/o/{org_slug}/applications/{service_slug}/test-sign-in": able(Capability.SERVICES_MANAGE, impersonated=True),
    # The one begins to wait, the other asks without an address that says what: neither calls an endpoint.
    "POST /ui/o/{org_slug}/applications/{service_slug}/first-sign-in": able(Capability.SERVICES_MANAGE, impersonated=True),
    "POST /ui/o/{org_slug}/people/why": able(Capability.SERVICES_MANAGE, impersonated=True),
    **dict.fromkeys(
        (
            "GET /ui/platform/health",
            *(
                f"{method} /ui/platform/{one}"
                for method in ("GET", "POST")
                for one in ("people/{user_id}/reset-access", "people/{user_id}/sessions/end", "signing-keys/rotate-encryption")
            ),
            "GET /ui/platform/people/{user_id}/sessions",
            "POST /ui/platform/people/{user_id}/sessions/{session_id}/end",
        ),
        PLATFORM_OWNER,
    ),
}


def test_a_page_of_the_console_has_the_rule_of_its_endpoint() -> None:
    named = {}
    for one in CONSOLE:
        offered = offers()[str(one)]
        if not offered or one.caller is not in_browser(offered[0].caller):
            named[str(one)] = one.caller
    assert named == {page: in_browser(rule) for page, rule in STATED.items()}


def door_keeper() -> Any:
    async def show(call: Call, postern: Postern) -> Answer[bytes]:  # noqa: ARG001 - `stated` goes by the names
        return Answer(b"", 200)

    return show


def doors_of_the_console() -> Mapping[CallerRule, Sequence[Endpoint]]:
    """Pages without the work behind them, one and its form for each rule of the console."""
    doors: dict[CallerRule, Sequence[Endpoint]] = {}
    for rule in ROUTES_BY_RULE:
        if (shown := next((one for one in CONSOLE if one.caller is in_browser(rule)), None)) is None:
            continue
        at = f"/ui/{'o/{org_slug}/' if isinstance(rule, MemberRule) else ''}~door{len(doors)}"
        doors[rule] = [
            declare(at, caller=shown.caller, limit=UNLIMITED)(stated(door_keeper(), f"door{len(doors)}", at, body=body))
            for declare, body in ((page.get, None), (page.post, BoundForm))
        ]
    return doors


async def test_sessions_in_browsers_open_the_console_as_their_tokens_open_its_endpoints_and_nothing_else_does(
    postern: Postern, people: People
) -> None:
    doors, table, wallet = doors_of_the_console(), rows(), Wallet(postern, people)
    assert {in_browser(rule) for rule in doors} == {one.caller for one in CONSOLE}
    settings = replace(http.SETTINGS, rate_limits=False)
    client = Client(PosternApplication(postern, settings, Endpoints([one for two in doors.values() for one in two])))
    wrong: list[str] = []
    for kind in (*KINDS, *IN_BROWSERS):
        headers = await wallet.headers(kind)
        for rule, pages in doors.items():
            # What the table says about the endpoints with this rule.
            (expected,) = {table[str(one)].admits_in_browser(kind) for one in ROUTES_BY_RULE[rule]}
            came = {one.method: await passes(client, one, headers) for one in pages}
            if set(came.values()) != {expected}:
                wrong.append(f"{kind.name} at {rule.name}: {came}")
    assert wrong == []
