// How a call becomes a request, and when it is tried again.
import { ApiError, NotReached, TimedOut, UnexpectedAnswer } from "./failures.js"

// What may be sent twice: the second time changes nothing more.
const REPEATABLE = new Set(["GET", "PUT", "DELETE"])
const TRY_LATER = new Set([429, 503])
// A browser names itself, and asks the server before it sends this header to another origin.
const IS_BROWSER = typeof globalThis.document !== "undefined" || typeof globalThis.WorkerGlobalScope !== "undefined"

/** The path with its parts, each encoded. */
export function path(strings, ...parts) {
  for (const part of parts) {
    // A URL is normalized on its way: `..` would name another endpoint.
    if (typeof part !== "string" || ["", ".", ".."].includes(part)) throw new TypeError(`${JSON.stringify(part)} cannot be a part of a path`)
  }
  return String.raw({ raw: strings }, ...parts.map(encodeURIComponent))
}

export class Caller {
  #baseUrl
  #given

  constructor(baseUrl, { timeout = 30, retries = 2, longestWait = 30, fetch = globalThis.fetch.bind(globalThis), ...given } = {}) {
    this.#baseUrl = baseUrl.replace(/\/+$/, "")
    this.#given = { timeout, retries, longestWait, fetch, ...given }
  }

  async call(call, options = {}) {
    for (let tries = 1; ; tries++) {
      const response = await this.#sent(call, options)
      const wait = this.#wait(call, response, tries)
      if (wait === undefined) return this.#read(call, response, options)
      await response.body?.cancel()
      await sleep(wait, options.signal)
    }
  }

  async #sent(call, { signal, timeout = this.#given.timeout }) {
    const address = `${this.#baseUrl}${call.path}`
    const { prove } = this.#given
    const proof = prove && "DPoP" in (call.headers ?? {}) ? { DPoP: await prove(call.method, address) } : {}
    const headers = { Accept: "application/json", ...(await this.#credential(call, address)), ...proof, ...defined(call.headers) }
    if (!IS_BROWSER) headers["User-Agent"] = this.constructor.userAgent
    const [body, type] = encoded(call)
    if (body !== undefined) headers["Content-Type"] = type
    const query = pairs(call.query)
    const limit = AbortSignal.timeout(timeout * 1000)
    try {
      return await this.#given.fetch(`${address}${query && `?${query}`}`, {
        method: call.method,
        headers,
        body,
        // The API never redirects, and a redirect must not carry the token elsewhere.
        redirect: "error",
        credentials: "omit",
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      })
    } catch (error) {
      throw failure(call, error, signal, timeout)
    }
  }

  async #credential({ method, credentials: taken = [] }, address) {
    const { token, apiKey, client, prove } = this.#given
    for (const one of taken) {
      if (one === "token" && token !== undefined) {
        const shown = typeof token === "string" ? token : await token()
        if (!prove || !taken.includes("bound_token")) return { Authorization: `Bearer ${shown}` }
        return { Authorization: `DPoP ${shown}`, DPoP: await prove(method, address, shown) }
      }
      if (one === "api_key" && apiKey !== undefined) return { "X-Api-Key": apiKey }
      if (one === "client" && client !== undefined) {
        const [id, secret] = [client.id, client.secret].map((part) => new URLSearchParams({ "": part }).toString().slice(1))
        return { Authorization: `Basic ${btoa(`${id}:${secret}`)}` }
      }
    }
    return {}
  }

  /** The seconds before the next try. Undefined if there is none. */
  #wait(call, response, tries) {
    const wait = retryAfter(response)
    if (!TRY_LATER.has(response.status) || !REPEATABLE.has(call.method) || tries > this.#given.retries) return undefined
    return wait !== undefined && wait <= this.#given.longestWait ? wait : undefined
  }

  async #read(call, response, { signal, timeout = this.#given.timeout }) {
    let text
    try {
      text = await response.text()
    } catch (error) {
      throw failure(call, error, signal, timeout)
    }
    if (!response.ok) throw this.#refusal(response, text)
    if (call.answer === "nothing") return undefined
    if (call.answer === "text") return text
    try {
      return JSON.parse(text)
    } catch (error) {
      throw new UnexpectedAnswer(`${response.status} ${response.headers.get("content-type") ?? "of no type"}: ${error.message}`, { cause: error })
    }
  }

  #refusal(response, text) {
    let body = {}
    try {
      body = Object(JSON.parse(text))
    } catch {
      // Something between us and the server may answer in its own way.
    }
    const code = typeof body.error_code === "string" ? body.error_code : ""
    const Refusal = Object.hasOwn(this.constructor.errors, code) ? this.constructor.errors[code] : ApiError
    return new Refusal(body.error_description ?? body.error ?? response.statusText, {
      status: response.status,
      code,
      retryAfter: retryAfter(response),
      requestId: response.headers.get("x-request-id") ?? undefined,
      body,
    })
  }
}

function encoded({ body, form, content, contentType = "application/json" }) {
  if (content !== undefined) return [content, contentType]
  if (form !== undefined) return [pairs(form), "application/x-www-form-urlencoded"]
  return [body === undefined ? undefined : JSON.stringify(body), contentType]
}

// As in a query or a form, where nothing is null. A list is its name once for each value.
function pairs(values = {}) {
  const given = Object.entries(defined(values)).flatMap(([name, value]) => [value].flat().map((one) => [name, String(one)]))
  return new URLSearchParams(given).toString()
}

function defined(values = {}) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== null))
}

function retryAfter(response) {
  const told = response.headers.get("retry-after") ?? ""
  return /^\d+$/.test(told) ? Number(told) : undefined
}

function failure(call, error, signal, timeout) {
  // Who gave the signal knows why.
  if (signal?.aborted) return error
  if (error?.name === "TimeoutError") return new TimedOut(`${call.method} ${call.path}: no answer in ${timeout} s`, { cause: error })
  return new NotReached(`${call.method} ${call.path}: ${error?.cause?.message ?? error?.message}`, { cause: error })
}

function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const ended = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", ended)
      resolve()
    }, seconds * 1000)
    signal?.addEventListener("abort", ended, { once: true })
  })
}

export async function* byAfter(fetch, items) {
  let after
  do {
    const page = await fetch(after)
    yield* items(page)
    after = page.next
  } while (after !== null && after !== undefined)
}

/** Pages by their number, or by the number of their first entry. The last page is not full. */
export async function* byNumber(fetch, items, { first, step, size }) {
  for (let number = first; ; number += step) {
    const page = items(await fetch(number))
    yield* page
    if (page.length < size) return
  }
}
