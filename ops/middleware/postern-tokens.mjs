// Checks access tokens of Postern in your API. Copy this file and the file of your framework. It needs `npm install jose`.
import { createRemoteJWKSet, errors, jwtVerify } from "jose"

export const TWO_FACTORS = "http://schemas.openid.net/pape/policies/2007/06/multi-factor"
const LOGOUT = "http://schemas.openid.net/event/backchannel-logout"

// The answer to a request that may not pass: a status, and the header `WWW-Authenticate` (RFC 6750, RFC 9470).
export class Refused extends Error {
  constructor(status, error = "", description = "", wanted = {}) {
    super(description || "a token is needed")
    this.status = status
    this.body = { error: error || "invalid_request", error_description: this.message }
    const parts = Object.entries({ error, error_description: description, ...wanted }).filter(([, value]) => value)
    this.headers = {
      "WWW-Authenticate": "Bearer " + parts.map(([name, value]) => `${name}="${value}"`).join(", "),
      "Cache-Control": "no-store",
    }
  }
}

export class Tokens {
  // `ids` are the ids of the service and of its organization, because a slug may belong to somebody else tomorrow; of an API that stands as
  // such in Postern, its own id. With `introspectAs`, "<client id>:<client secret>", Postern is asked at each request whether the token is
  // still active. `isEnded` is asked with the `sid` of the token: whether `logoutNotice` gave it before.
  constructor(issuer, { audience, ids, algorithm = "ES256", introspectAs, isEnded = () => false }) {
    Object.assign(this, { issuer, audience, ids, algorithm, introspectAs, isEnded })
    // An unknown `kid` has the keys fetched again, but not sooner than after the cooldown.
    this.keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`), { cooldownDuration: 10_000, timeoutDuration: 5_000 })
  }

  // The claims of the token in the header `Authorization`. Throws `Refused`.
  async claims(authorization) {
    if (!authorization) throw new Refused(401)
    const [scheme, token, ...more] = authorization.split(" ")
    if (scheme.toLowerCase() !== "bearer" || !token || more.length) {
      throw new Refused(401, "invalid_token", "one header Authorization with Bearer and a token is needed")
    }
    const claims = await this.#verified(token, "at+jwt", [this.algorithm], this.audience)
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
