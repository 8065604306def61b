// oauth4webapi with a resource: a person's sign-in, a refresh, a token of the program's own, and an exchanged one. Prints the tokens.
import { createInterface } from "node:readline/promises"
import * as oauth from "oauth4webapi"

const [issuer, id, secret, redirectUri, resource, other] = process.argv.slice(2)
const insecure = { [oauth.allowInsecureRequests]: true }
const found = await oauth.discoveryRequest(new URL(issuer), { algorithm: "oauth2", ...insecure })
const server = await oauth.processDiscoveryResponse(new URL(issuer), found)
const client = { client_id: id }
const authenticated = oauth.ClientSecretBasic(secret)
const verifier = oauth.generateRandomCodeVerifier()
const state = oauth.generateRandomState()
const address = new URL(server.authorization_endpoint)
address.search = new URLSearchParams({
  client_id: id,
  redirect_uri: redirectUri,
  response_type: "code",
  scope: "openid orders:read orders:write",
  resource,
  state,
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
})
const came = await createInterface({ input: process.stdin, output: process.stderr }).question(`${address.href}\n`)
const told = oauth.validateAuthResponse(server, client, new URL(came), state)
const named = { additionalParameters: { resource }, ...insecure }
const exchanged = await oauth.authorizationCodeGrantRequest(server, client, authenticated, told, redirectUri, verifier, named)
const first = await oauth.processAuthorizationCodeResponse(server, client, exchanged, { requireIdToken: true })
const refreshed = await oauth.refreshTokenGrantRequest(server, client, authenticated, first.refresh_token, {
  additionalParameters: { resource, scope: "orders:read" },
  ...insecure,
})
const second = await oauth.processRefreshTokenResponse(server, client, refreshed)
const asked = await oauth.clientCredentialsGrantRequest(server, client, authenticated, { resource, scope: "orders:write" }, insecure)
const own = await oauth.processClientCredentialsResponse(server, client, asked)
const grant = "urn:ietf:params:oauth:grant-type:token-exchange"
const shown = { subject_token: second.access_token, subject_token_type: "urn:ietf:params:oauth:token-type:access_token" }
const wanted = { ...shown, resource: other, scope: "orders:read" }
const answered = await oauth.genericTokenEndpointRequest(server, client, authenticated, grant, wanted, insecure)
const swapped = await oauth.processGenericTokenEndpointResponse(server, client, answered)
const introspected = await oauth.introspectionRequest(server, client, authenticated, second.access_token, insecure)
const seen = await oauth.processIntrospectionResponse(server, client, introspected)
// The library checks tokens of RFC 9068 as well: issuer, audience, type, signature.
const request = new Request(resource, { headers: { Authorization: `Bearer ${second.access_token}` } })
const claims = await oauth.validateJwtAccessToken(server, request, resource, insecure)
const checked = await oauth.validateJwtAccessToken(server, request, `${resource}/`, insecure).catch((error) => error.code)
console.log(
  JSON.stringify({
    first: first.access_token,
    second: second.access_token,
    own: own.access_token,
    exchanged: swapped.access_token,
    active: seen.active && claims.scope === "orders:read" && checked === oauth.JWT_CLAIM_COMPARISON,
  }),
)
process.exit()
