import { answer } from "../../../answering.mjs"

export const dynamic = "force-dynamic"
export const GET = answer
