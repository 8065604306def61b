// Next.js: a route handler that needs an access token.
//
//   // instrumentation.js
//   export { register } from "./nextjs-guard.mjs"
//
//   // app/api/payments/route.js
//   export const POST = guarded(tokens, { scopes: ["payments:write"], maxAge: 300 }, async (request, { claims, params }) => …)
//
// The check is in the handler, and not in `middleware.js`: Next.js finds the route first, and no header, rewrite or matcher leads around the
// handler. (CVE-2025-29927: with the header `x-middleware-subrequest`, Next.js left the middleware out.)
import { Refused, require } from "./postern-tokens.mjs"

const LOOKED_AT = "x-authorization-looked-at"
const WORD = Symbol.for("postern.nextjs-guard")

// Node takes the first of several headers `Authorization` without a word, and a route handler never sees the others. So they are counted
// when the request arrives, before Next.js has it. The request is marked by a word that nobody outside knows.
export async function register() {
  if (process.env.NEXT_RUNTIME === "nodejs") {
    const { subscribe } = await import("node:diagnostics_channel")
    const word = crypto.randomUUID()
    subscribe("http.server.request.start", ({ request }) => {
      const several = request.rawHeaders.filter((one, at) => at % 2 === 0 && one.toLowerCase() === "authorization").length > 1
      if (several) request.headers.authorization = "several headers"
      request.headers[LOOKED_AT] = word
    })
    // Instrumentation and handlers are bundles of their own, so a variable of this module would be another one there.
    globalThis[WORD] = word
  }
}

export function guarded(tokens, conditions, handler) {
  return async (request, context) => {
    try {
      if (!globalThis[WORD]) throw new Error("nextjs-guard.mjs: export register from instrumentation.js, and use the runtime nodejs")
      // It came before `register` was through, or from elsewhere than Node's server.
      if (request.headers.get(LOOKED_AT) !== globalThis[WORD]) throw new Refused(503, "temporarily_unavailable", "the server is starting")
      const asked = { proof: request.headers.get("dpop") ?? "", method: request.method, path: new URL(request.url).pathname }
      const claims = await tokens.claims(request.headers.get("authorization"), asked)
      require(claims, conditions)
      return await handler(request, { ...context, claims })
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return Response.json(error.body, { status: error.status, headers: error.headers })
    }
  }
}
