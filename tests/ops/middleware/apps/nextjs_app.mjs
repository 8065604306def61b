// Route handlers as Next.js calls them: with a Request, and the parameters of the route. The routes here are paths as Next.js matches them.
import { createServer } from "node:http"
import { RAN, port, tokens } from "./common.mjs"
import { guarded } from "./nextjs-guard.mjs"

const answer = (_request, { claims }) => Response.json({ sub: claims?.sub ?? null }, { headers: RAN })
const routes = {
  "GET /health": answer,
  "GET /both": guarded(tokens, { scopes: ["orders:read"] }, answer),
  "GET /orders": guarded(tokens, {}, answer),
  "GET /orders/refunds": guarded(tokens, { scopes: ["orders:read", "orders:refund"] }, answer),
  "POST /payments": guarded(tokens, { scopes: ["payments:write"], maxAge: 300 }, answer),
  "GET /secrets": guarded(tokens, { twoFactors: true }, answer),
}

async function serve(asked) {
  const path = decodeURIComponent(new URL(asked.url, "http://127.0.0.1").pathname).replace(/(.)\/$/, "$1")
  const headers = new Headers()
  for (let at = 0; at < asked.rawHeaders.length; at += 2) headers.append(asked.rawHeaders[at], asked.rawHeaders[at + 1])
  const handler = routes[`${asked.method} ${path}`] ?? (() => new Response(null, { status: 404 }))
  return handler(new Request(`http://127.0.0.1${asked.url}`, { method: asked.method, headers }), { params: {} })
}

createServer(async (asked, answered) => {
  // The platform's own Request takes no method TRACE, and no address without a slash.
  const response = await serve(asked).catch(() => new Response(null, { status: 400 }))
  answered.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text())
}).listen(port, "127.0.0.1")
