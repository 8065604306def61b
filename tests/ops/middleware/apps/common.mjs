import { Tokens } from "./postern-tokens.mjs"

const { ISSUER, AUDIENCE, IDS, PORT } = process.env
export const port = Number(PORT)
export const tokens = new Tokens(ISSUER, {
  audience: AUDIENCE.split(" "),
  ids: IDS.split(" "),
  introspectAs: "shop:secret",
  isEnded: (sid) => sid === "ended",
  origin: `http://127.0.0.1:${PORT}`,
})
// The header of an answer of an endpoint of ours.
export const RAN = { "X-Ran": "yes" }
