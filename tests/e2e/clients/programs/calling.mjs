// Makes the calls that standard input names, and prints what came of each.
import { readFileSync } from "node:fs"
import { Postern, PosternError } from "@postern/client"

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())

async function ids(items) {
  const found = []
  for await (const item of items) found.push(item.id)
  return found
}

async function called({ url, call, path, body, content, query, options }) {
  const given = Object.fromEntries(Object.entries({ longest_wait: 5, ...options }).map(([name, value]) => [camel(name), value]))
  const proof = (method, address, token) => [method, new URL(address).pathname, ...(token ? [token] : [])].join(" ")
  if (given.prove) given.prove = proof
  if (given.client) given.client = { id: given.client[0], secret: given.client[1] }
  try {
    const answer = new Postern(url, given)[camel(call)](...path, ...[body, content, query].filter((one) => one !== undefined))
    if (call.startsWith("iterate")) return { items: await ids(answer) }
    const value = await answer
    return { answer: value === undefined ? null : typeof value === "string" ? value : "object" }
  } catch (error) {
    const { status, code, retryAfter, requestId } = error
    const is_ours = error instanceof PosternError
    return { error: error.name, is_ours, status: status ?? null, code: code ?? null, retry_after: retryAfter ?? null, request_id: requestId ?? null }
  }
}

const outcomes = []
for (const one of JSON.parse(readFileSync(0, "utf8"))) outcomes.push(await called(one))
console.log(JSON.stringify(outcomes))
