import express from "express"
import { guard, needs, refusals } from "./express-guard.mjs"
import { RAN, port, tokens } from "./common.mjs"

const app = express()
const answer = (request, response) => response.set(RAN).json({ sub: request.claims?.sub ?? null })
app.get("/health", answer)
app.get("/both", needs({ scopes: ["orders:read"] }), answer)
app.get("/twice/open", answer)
app.use(guard(tokens))
app.get("/twice/closed", answer)
app.get("/orders", answer)
app.get("/orders/refunds", needs({ scopes: ["orders:read", "orders:refund"] }), answer)
app.post("/payments", needs({ scopes: ["payments:write"], maxAge: 300 }), answer)
app.get("/secrets", needs({ twoFactors: true }), answer)
app.use(refusals)
app.listen(port, "127.0.0.1")
