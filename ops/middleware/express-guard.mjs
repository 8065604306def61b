// Express: every route that is added after the guard needs an access token.
//
//   app.get("/health", …)                       // open to anyone: before the guard
//   app.use(guard(tokens))
//   app.post("/payments", needs({ scopes: ["payments:write"], maxAge: 300 }), (request, response) => …)
//   app.use(refusals)                           // last
//
// The guard has no path and no list of exceptions: a path that is written differently (`//payments`, `/Payments/`) meets the guard like any
// other. `needs` stands at the route that it guards.
import { Refused, require } from "./postern-tokens.mjs"

export function guard(tokens) {
  return (request, _response, next) => {
    // Node takes the first of several headers `Authorization` without a word; `rawHeaders` has them all.
    const several = request.rawHeaders.filter((one, at) => at % 2 === 0 && one.toLowerCase() === "authorization").length > 1
    const asked = { proof: request.headers.dpop, method: request.method, path: request.originalUrl.split("?")[0] }
    tokens.claims(several ? "several headers" : request.headers.authorization, asked).then((claims) => {
      request.claims = claims
      next()
    }, next)
  }
}

export function needs(conditions) {
  return (request, _response, next) => {
    require(request.claims, conditions)
    next()
  }
}

export function refusals(error, _request, response, next) {
  if (error instanceof Refused) response.status(error.status).set(error.headers).json(error.body)
  else next(error)
}
