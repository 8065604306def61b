export interface ClientOptions {
  /** An access token or a management key, or what gives one. */
  token?: string | (() => string | Promise<string>)
  /** The API key of a service. */
  apiKey?: string
  /** The id and a secret of a service, for the endpoints of OAuth. */
  client?: { id: string; secret: string }
  /** Makes a proof of your key (DPoP). Then `token` is bound to the key, and so are the tokens that you ask for. */
  prove?: (method: string, address: string, token?: string) => string | Promise<string>
  /** Seconds that one try may take: 30 if you do not say. */
  timeout?: number
  /** How often a call that may be repeated is tried again after 429 and 503: twice if you do not say. */
  retries?: number
  /** The longest wait before another try, in seconds: 30 if you do not say. */
  longestWait?: number
  /** In place of the runtime's own `fetch`. */
  fetch?: typeof globalThis.fetch
}

export interface CallOptions {
  signal?: AbortSignal
  /** Seconds that one try may take. */
  timeout?: number
}

export declare class Caller {
  /** A call sends the credentials that its operation takes. */
  constructor(baseUrl: string, options?: ClientOptions)
}
