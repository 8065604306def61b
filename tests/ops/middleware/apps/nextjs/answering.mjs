import { RAN } from "./common.mjs"

export const answer = (_request, { claims }) => Response.json({ sub: claims?.sub ?? null }, { headers: RAN })
