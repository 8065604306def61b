// The TypeScript SDK of the Model Context Protocol, with Express: every request that comes after the guard needs an access token, and a tool
// may need more scopes.
//
//   const server = { resource: "https://tools.example.com/mcp", scopes: ["notes:read"], tools: { add_note: ["notes:read", "notes:write"] } }
//   app.use(metadata(tokens, server))
//   app.post("/mcp", express.json(), guard(tokens, server), async (request, response) => {
//     …
//     await transport.handleRequest(request, response, request.body)
//   })
//
// `scopes` are what every request needs, and what clients ask for at first; `tools` are all scopes of the tools that need more. The handler
// hands `request.body` on, because that is what the guard has looked at: a request with another body is refused. A tool finds the claims in `extra.authInfo.extra`.
import { Refused, require } from "./postern-tokens.mjs"

const WELL_KNOWN = "/.well-known/oauth-protected-resource"

// The address of the protected resource metadata (RFC 9728 section 3.1).
function metadataOf(resource) {
  const { origin, pathname, search } = new URL(resource)
  return new URL(`${WELL_KNOWN}${pathname === "/" ? "" : pathname}${search}`, origin)
}

export function metadata(tokens, { resource, scopes = [] }) {
  const document = { resource, authorization_servers: [tokens.issuer], scopes_supported: scopes, bearer_methods_supported: ["header"] }
  return (request, response, next) => {
    if (request.path !== metadataOf(resource).pathname) return next()
    // Clients in a browser read it, too.
    response.set("Access-Control-Allow-Origin", "*").set("Access-Control-Allow-Headers", "mcp-protocol-version")
    return request.method === "OPTIONS" ? response.status(204).end() : response.json(document)
  }
}

// The names of the tools that a request calls. What was not parsed before the guard, nobody looked at: the SDK would read it afterwards, and it
// knows types that `express.json()` does not.
function called({ body, headers, method }) {
  const isSent = method === "POST" || headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0
  if (body === undefined && !isSent) return []
  const isObject = (one) => one !== null && typeof one === "object" && !Array.isArray(one) && !Buffer.isBuffer(one)
  const messages = Array.isArray(body) ? body : [body]
  if (!messages.every(isObject)) throw new Refused(body === undefined ? 415 : 400, "invalid_request", "a message in application/json is needed")
  const calls = messages.filter((one) => one.method === "tools/call")
  if (!calls.every(({ params }) => typeof params?.name === "string")) throw new Refused(400, "invalid_request", "a call names its tool")
  return calls.map(({ params }) => params.name)
}

export function guard(tokens, { resource, scopes = [], tools = {} }) {
  return async (request, response, next) => {
    const needed = new Set(scopes)
    try {
      // Node takes the first of several headers `Authorization` without a word; `rawHeaders` has them all.
      const several = request.rawHeaders.filter((one, at) => at % 2 === 0 && one.toLowerCase() === "authorization").length > 1
      const asked = { proof: request.headers.dpop, method: request.method, path: request.originalUrl.split("?")[0] }
      const claims = await tokens.claims(several ? "several headers" : request.headers.authorization, asked)
      for (const name of called(request)) for (const scope of Object.hasOwn(tools, name) ? tools[name] : []) needed.add(scope)
      require(claims, { scopes: [...needed] })
      request.auth = {
        token: request.headers.authorization.split(" ")[1],
        clientId: claims.client_id,
        scopes: (claims.scope ?? "").split(" "),
        expiresAt: claims.exp,
        resource: new URL(resource),
        extra: claims,
      }
    } catch (error) {
      if (!(error instanceof Refused)) return next(error)
      const named = error.status === 401 && scopes.length ? [`scope="${scopes.join(" ")}"`] : []
      const [scheme, ...told] = error.headers["WWW-Authenticate"].split(" ")
      const parts = [told.join(" "), ...named, `resource_metadata="${metadataOf(resource)}"`]
      response.status(error.status).set(error.headers).set("WWW-Authenticate", `${scheme} ${parts.filter(Boolean).join(", ")}`).json(error.body)
      return
    }
    next()
  }
}
