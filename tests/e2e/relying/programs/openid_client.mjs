// openid-client with a resource: a person's sign-in, a refresh, a token of the program's own, and an exchanged one. Prints the tokens.
import { createInterface } from "node:readline/promises"
import * as client from "openid-client"

const [issuer, id, secret, redirectUri, resource, other] = process.argv.slice(2)
const config = await client.discovery(new URL(issuer), id, secret, undefined, { execute: [client.allowInsecureRequests] })
const verifier = client.randomPKCECodeVerifier()
const state = client.randomState()
const address = client.buildAuthorizationUrl(config, {
  redirect_uri: redirectUri,
  scope: "openid orders:read orders:write",
  resource,
  state,
  code_challenge: await client.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
})
const came = await createInterface({ input: process.stdin, output: process.stderr }).question(`${address.href}\n`)
const checks = { pkceCodeVerifier: verifier, expectedState: state, idTokenExpected: true }
const first = await client.authorizationCodeGrant(config, new URL(came), checks, { resource })
const second = await client.refreshTokenGrant(config, first.refresh_token, { resource, scope: "orders:read" })
const own = await client.clientCredentialsGrant(config, { resource, scope: "orders:write" })
const seen = await client.tokenIntrospection(config, second.access_token)
const exchanged = await client.genericGrantRequest(config, "urn:ietf:params:oauth:grant-type:token-exchange", {
  subject_token: second.access_token,
  subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
  resource: other,
  scope: "orders:read",
})
console.log(
  JSON.stringify({
    first: first.access_token,
    second: second.access_token,
    own: own.access_token,
    active: seen.active,
    exchanged: exchanged.access_token,
  }),
)
process.exit()
