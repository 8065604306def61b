import { answer } from "../../answering.mjs"
import { tokens } from "../../common.mjs"
import { guarded } from "../../nextjs-guard.mjs"

export const dynamic = "force-dynamic"
export const GET = guarded(tokens, { scopes: ["orders:read"] }, answer)
