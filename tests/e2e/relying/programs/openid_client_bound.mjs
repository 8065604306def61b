// openid-client with a key (DPoP): a person's sign-in, who that is, a refresh; then what the same tokens are without the key, and with
// another one. Prints what came of it. Without a secret, the program is a public client.
import { createInterface } from "node:readline/promises"
import * as client from "openid-client"

// The library repeats requests by itself. What it sends is left as it is, and written down.
const heard = []
const send = globalThis.fetch
globalThis.fetch = async (address, options) => {
  const answer = await send(address, options)
  if (options?.headers && new Headers(options.headers).has("dpop")) heard.push(`${new URL(address).pathname} ${answer.status}`)
  return answer
}

const [issuer, id, redirectUri, secret] = process.argv.slice(2)
const authentication = secret ? client.ClientSecretBasic(secret) : client.None()
const config = await client.discovery(new URL(issuer), id, {}, authentication, { execute: [client.allowInsecureRequests] })
const key = client.getDPoPHandle(config, await client.randomDPoPKeyPair("ES256"))
const verifier = client.randomPKCECodeVerifier()
const state = client.randomState()
const address = client.buildAuthorizationUrl(config, {
  redirect_uri: redirectUri,
  scope: "openid email",
  state,
  dpop_jkt: await key.calculateThumbprint(),
  code_challenge: await client.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
})
const came = new URL(await createInterface({ input: process.stdin, output: process.stderr }).question(`${address.href}\n`))
const checks = { pkceCodeVerifier: verifier, expectedState: state, idTokenExpected: true }
const other = client.getDPoPHandle(config, await client.randomDPoPKeyPair("ES256"))
const named = (error) => error.error ?? error.code
const codeOfOther = await client.authorizationCodeGrant(config, came, checks, {}, { DPoP: other }).catch(named)
const codeAlone = await client.authorizationCodeGrant(config, came, checks).catch(named)
heard.length = 0

const first = await client.authorizationCodeGrant(config, came, checks, {}, { DPoP: key })
const { sub } = first.claims()
const { email } = await client.fetchUserInfo(config, first.access_token, sub, { DPoP: key })
const second = await client.refreshTokenGrant(config, first.refresh_token, {}, { DPoP: key })
const again = await client.fetchUserInfo(config, second.access_token, sub, { DPoP: key })
const walked = [...heard]

const challenge = ({ status, cause: [{ scheme, parameters }] }) => `${status} ${scheme} ${parameters.error}`
const seen = (options) => client.fetchUserInfo(config, second.access_token, sub, options).then(() => "answered", challenge)
const refreshed = (options) => client.refreshTokenGrant(config, second.refresh_token, {}, options).then((got) => got.token_type, named)
console.log(
  JSON.stringify({
    types: [first.token_type, second.token_type],
    emails: [email, again.email],
    walked,
    thumbprint: await key.calculateThumbprint(),
    token: second.access_token,
    codes: [codeOfOther, codeAlone],
    userinfo: [await seen(), await seen({ DPoP: other })],
    refreshes: [await refreshed(), await refreshed({ DPoP: other })],
  }),
)
process.exit()
