// oauth4webapi with a key (DPoP): a person's sign-in, who that is, a refresh; then what the same tokens are without the key, and with
// another one. Prints what came of it. Without a secret, the program is a public client.
import { createInterface } from "node:readline/promises"
import * as oauth from "oauth4webapi"

// What the library sends is left as it is, and written down.
const heard = []
const send = globalThis.fetch
globalThis.fetch = async (address, options) => {
  const answer = await send(address, options)
  if (options?.headers && new Headers(options.headers).has("dpop")) heard.push(`${new URL(address).pathname} ${answer.status}`)
  return answer
}

const [issuer, id, redirectUri, secret] = process.argv.slice(2)
const insecure = { [oauth.allowInsecureRequests]: true }
const server = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))
const client = { client_id: id }
const authenticated = secret ? oauth.ClientSecretBasic(secret) : oauth.None()
const key = oauth.DPoP(client, await oauth.generateKeyPair("ES256"))
const verifier = oauth.generateRandomCodeVerifier()
const state = oauth.generateRandomState()
const address = new URL(server.authorization_endpoint)
address.search = new URLSearchParams({
  client_id: id,
  redirect_uri: redirectUri,
  response_type: "code",
  scope: "openid email",
  state,
  dpop_jkt: await key.calculateThumbprint(),
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
})
const came = await createInterface({ input: process.stdin, output: process.stderr }).question(`${address.href}\n`)
const told = oauth.validateAuthResponse(server, client, new URL(came), state)

// The library keeps the nonce of each answer, and leaves it to the program to ask again.
const repeated = (asked) => asked().catch((error) => (oauth.isDPoPNonceError(error) ? asked() : Promise.reject(error)))
const redeem = (DPoP) =>
  repeated(async () => {
    const options = { DPoP, ...insecure }
    const answer = await oauth.authorizationCodeGrantRequest(server, client, authenticated, told, redirectUri, verifier, options)
    return oauth.processAuthorizationCodeResponse(server, client, answer, { requireIdToken: true })
  })
const refresh = (DPoP, token) =>
  repeated(async () => {
    const answer = await oauth.refreshTokenGrantRequest(server, client, authenticated, token, { DPoP, ...insecure })
    return oauth.processRefreshTokenResponse(server, client, answer)
  })
const ask = (DPoP, token, sub) =>
  repeated(async () => {
    const answer = await oauth.userInfoRequest(server, client, token, { DPoP, ...insecure })
    return oauth.processUserInfoResponse(server, client, sub, answer)
  })
const other = oauth.DPoP(client, await oauth.generateKeyPair("ES256"))
const named = (error) => error.error ?? error.code
const codeOfOther = await redeem(other).catch(named)
const codeAlone = await redeem(undefined).catch(named)
heard.length = 0

const first = await redeem(key)
const { sub } = oauth.getValidatedIdTokenClaims(first)
const { email } = await ask(key, first.access_token, sub)
const second = await refresh(key, first.refresh_token)
const again = await ask(key, second.access_token, sub)
const walked = [...heard]

const challenge = ({ status, cause: [{ scheme, parameters }] }) => `${status} ${scheme} ${parameters.error}`
const seen = (DPoP) => ask(DPoP, second.access_token, sub).then(() => "answered", challenge)
const refreshed = (DPoP) => refresh(DPoP, second.refresh_token).then((got) => got.token_type, named)
console.log(
  JSON.stringify({
    types: [first.token_type, second.token_type],
    emails: [email, again.email],
    walked,
    thumbprint: await key.calculateThumbprint(),
    token: second.access_token,
    codes: [codeOfOther, codeAlone],
    userinfo: [await seen(), await seen(other)],
    refreshes: [await refreshed(), await refreshed(other)],
  }),
)
process.exit()
