// Checks access tokens of Postern in your API. Copy this file and the file of your framework. It needs `npm install jose`.
import { createHash } from "node:crypto"
import { EmbeddedJWK, calculateJwkThumbprint, createRemoteJWKSet, decodeProtectedHeader, errors, jwtVerify } from "jose"

export const TWO_FACTORS = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
const PROOFS = ["ES256", "ES384", "EdDSA", "PS256", "RS256"]
const LONGEST_PROOF = 8192
const PROOF_LASTS = 60
const MOST_PROOFS = 100_000
const LOGOUT = "http://schemas.openid.net/event/backchannel-logout"

// The answer to a request that may not pass: a status, and the header `WWW-Authenticate` (RFC 6750, RFC 9470).
export class Refused extends Error {
  constructor(status, error = "", description = "", wanted = {}, scheme = "Bearer") {
    super(description || "a token is needed")
    this.status = status
    this.body = { error: error || "invalid_request", error_description: this.message }
    const parts = Object.entries({ error, error_description: description, ...wanted }).filter(([, value]) => value)
    this.headers = {
      "WWW-Authenticate": `${scheme} ` + parts.map(([name, value]) => `${name}="${value}"`).join(", "),
      "Cache-Control": "no-store",
    }
  }
}

export class Tokens {
  // `ids` are the ids of the service and of its organization, because a slug may belong to somebody else tomorrow; of an API that stands as
  // such in Postern, its own id. With `introspectAs`, "<client id>:<client secret>", Postern is asked at each request whether the token is
  // still active. `isEnded` is asked with the `sid` of the token: whether `logoutNotice` gave it before. `origin` is the address under which
  // applications know the API, "https://api.example.com": with it, tokens that are bound to a key pass with a proof of the key (DPoP), and
  // without it, none of them does. `isUsed` is asked with the id of each proof whether it came before; keep ids for two minutes, where all
  // processes find them. Left out, each process remembers its own.
  constructor(issuer, { audience, ids, algorithm = "ES256", introspectAs, isEnded = () => false, origin = "", isUsed = once() }) {
    Object.assign(this, { issuer, audience, ids, algorithm, introspectAs, isEnded, origin, isUsed })
    // An unknown `kid` has the keys fetched again, but not sooner than after the cooldown.
    this.keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`), { cooldownDuration: 10_000, timeoutDuration: 5_000 })
  }

  // The claims of the token in the header `Authorization`. `request` has the header `DPoP` as `proof`, the `method`, and the `path` as it came,
  // percent-encoded and without query. Throws `Refused`.
  async claims(authorization, request = {}) {
    if (!authorization) throw new Refused(401)
    const [scheme, token, ...more] = authorization.split(" ")
    if (!["bearer", "dpop"].includes(scheme.toLowerCase()) || !token || more.length) {
      throw new Refused(401, "invalid_token", "one header Authorization with Bearer and a token is needed")
    }
    const claims = await this.#verified(token, "at+jwt", [this.algorithm], this.audience)
    await this.#requireKey(claims.cnf, scheme.toLowerCase() === "dpop", token, request)
    // A token for an API of yours names the API; every other token names the service, or, if it is a program's own, the organization.
    if (!this.ids.includes(claims.resource_id ?? (claims.token_use === "client" ? claims.org_id : claims.service_id))) {
      throw new Refused(401, "invalid_token", "the token is for another service or API")
    }
    if ((await this.isEnded(claims.sid)) || (this.introspectAs && !(await this.#isActive(token)))) {
      throw new Refused(401, "invalid_token", "the session has ended")
    }
    return claims
  }

  // The `sid` of the session that ended, from the form field `logout_token` of Postern's notice. Keep it for as long as an access token
  // lives. Throws `Refused`.
  async logoutNotice(logoutToken, clientId) {
    const { events = {}, nonce, sid } = await this.#verified(logoutToken, "logout+jwt", ["RS256", "ES256"], clientId)
    if (!(LOGOUT in events) || nonce !== undefined || !sid) throw new Refused(400, "invalid_request", "this is no logout token")
    return sid
  }

  async #verified(token, typ, algorithms, audience) {
    try {
      const required = ["exp", "iat", "iss", "aud", "sub"]
      const options = { typ, algorithms, issuer: this.issuer, audience, requiredClaims: required, clockTolerance: 30 }
      return (await jwtVerify(token, this.keys, options)).payload
    } catch (error) {
      if (error instanceof errors.JWTExpired) throw new Refused(401, "invalid_token", "the token has expired")
      const whose = { aud: "the token is for another audience", iss: "the token is from another issuer", typ: "the token is of another type" }
      if (error instanceof errors.JWTClaimValidationFailed) throw new Refused(401, "invalid_token", whose[error.claim] ?? "the token is not valid")
      // Its text may quote the token, so it does not go into a header.
      if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError)) {
        throw new Refused(503, "temporarily_unavailable", "the keys cannot be fetched")
      }
      throw new Refused(401, "invalid_token", "the token is not valid")
    }
  }

  // A token that is bound to a key passes with a proof of this key alone, and every other without one (RFC 9449 section 7).
  async #requireKey(boundTo, isProved, token, { proof = "", method, path }) {
    if (boundTo === undefined && !isProved) return
    if (boundTo === undefined || !isProved || !this.origin) {
      throw unproved("the token is bound to a key, or the scheme DPoP came with one that is not")
    }
    let said, jwk, thumbprint, named, ours
    try {
      // The sizes are looked at before anything is computed with the numbers.
      if (proof.length > LONGEST_PROOF || (decodeProtectedHeader(proof).jwk?.n ?? "").length > 683) throw new Error("too long")
      const read = await jwtVerify(proof, EmbeddedJWK, { typ: "dpop+jwt", algorithms: PROOFS, clockTolerance: 1e9 })
      said = read.payload
      jwk = read.protectedHeader.jwk
      thumbprint = await calculateJwkThumbprint(jwk)
      named = new URL(said.htu)
      ours = new URL(this.origin + path)
    } catch {
      throw unproved("one header DPoP with a valid proof of the key is needed")
    }
    const age = Date.now() / 1000 - said.iat
    const fits = said.htm === method && named.origin === ours.origin && named.pathname === ours.pathname && !named.username && !named.password
    if (!fits || !(age >= -10 && age <= PROOF_LASTS) || said.ath !== createHash("sha256").update(token).digest("base64url")) {
      throw unproved("the proof is for another request")
    }
    const isNamed = typeof said.jti === "string" && said.jti.length > 0 && said.jti.length <= 128
    if (boundTo.jkt !== thumbprint || Object.keys(boundTo).length !== 1 || "d" in jwk || !isNamed) throw unproved("the proof is of another key")
    if (await this.isUsed(`${thumbprint} ${said.jti}`)) throw unproved("the proof was used before")
  }

  async #isActive(token) {
    const headers = { Authorization: `Basic ${Buffer.from(this.introspectAs).toString("base64")}` }
    try {
      // A redirect would take the token elsewhere, and whoever answers there would say whether it is active.
      const asked = { method: "POST", headers, body: new URLSearchParams({ token }), redirect: "error", signal: AbortSignal.timeout(5_000) }
      const answer = await fetch(`${this.issuer}/oauth/introspect`, asked)
      if (!answer.ok) throw new Error(answer.statusText)
      return (await answer.json()).active === true
    } catch {
      throw new Refused(503, "temporarily_unavailable", "Postern cannot be asked whether the session lives")
    }
  }
}

function unproved(description) {
  return new Refused(401, "invalid_dpop_proof", description, { algs: PROOFS.join(" ") }, "DPoP")
}

// Remembers the ids of proofs in this process, for as long as a proof counts.
function once() {
  let known = [new Set(), new Set()]
  let turned = Date.now()
  return (one) => {
    if (Date.now() - turned > (PROOF_LASTS + 10) * 1000 || known[0].size > MOST_PROOFS) {
      known = [new Set(), known[0]]
      turned = Date.now()
    }
    const isKnown = known[0].has(one) || known[1].has(one)
    known[0].add(one)
    return isKnown
  }
}

// Each of the scopes, and each of the other conditions, must hold. Throws `Refused`; its challenge asks for a step-up.
export function require(claims, { scopes = [], maxAge, twoFactors = false }) {
  if (!claims) throw new Refused(401)
  const held = (claims.scope ?? "").split(" ")
  if (!scopes.every((one) => held.includes(one))) {
    throw new Refused(403, "insufficient_scope", "the token lacks a scope", { scope: scopes.join(" ") })
  }
  const isOld = maxAge !== undefined && Date.now() / 1000 - (claims.auth_time ?? 0) > maxAge
  if (isOld || (twoFactors && claims.acr !== TWO_FACTORS)) {
    const wanted = { max_age: maxAge === undefined ? "" : `${maxAge}`, acr_values: twoFactors ? TWO_FACTORS : "" }
    throw new Refused(401, "insufficient_user_authentication", "sign in again", wanted)
  }
}
