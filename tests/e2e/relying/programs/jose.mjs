// jose checks a token for an API, and prints whose it is, or what is wrong with it.
import { createRemoteJWKSet, jwtVerify } from "jose"

const [issuer, audience, typ, token] = process.argv.slice(2)
const keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`))
try {
  const { payload } = await jwtVerify(token, keys, { issuer, audience, typ, algorithms: ["ES256"] })
  console.log(payload.scope)
} catch (error) {
  console.log(`${error.code} ${error.claim}`)
}
