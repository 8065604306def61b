// Next.js: a route handler that needs an access token.
//
//   // app/api/payments/route.js
//   export const POST = guarded(tokens, { scopes: ["payments:write"], maxAge: 300 }, async (request, { claims, params }) => …)
//
// The check is in the handler, and not in `middleware.js`: Next.js finds the route first, and no header, rewrite or matcher leads around the
// handler. (CVE-2025-29927: with the header `x-middleware-subrequest`, Next.js left the middleware out.)
import { Refused, require } from "./postern-tokens.mjs"

export function guarded(tokens, conditions, handler) {
  return async (request, context) => {
    try {
      // `Headers` joins several headers by a comma, which no token has: the check refuses them.
      const claims = await tokens.claims(request.headers.get("authorization"))
      require(claims, conditions)
      return await handler(request, { ...context, claims })
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return Response.json(error.body, { status: error.status, headers: error.headers })
    }
  }
}
