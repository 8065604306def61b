/** Any failure of a call. */
export declare class PosternError extends Error {}
/** No answer came: no connection, or it broke off. The server may have done what you asked for. */
export declare class NotReached extends PosternError {}
/** No answer came in time. */
export declare class TimedOut extends NotReached {}
/** The answer is none of Postern's. Something between you and the server may have sent it. */
export declare class UnexpectedAnswer extends PosternError {}
/** A refusal, or an error of the server. The subclasses are named by the code. */
export declare class ApiError extends PosternError {
  /** The HTTP status. */
  readonly status: number
  /** The error code, such as `NOT_FOUND`. Empty if the answer has none. */
  readonly code: string
  /** The seconds after which another try may succeed. */
  readonly retryAfter: number | undefined
  /** The operator of the server finds the request in the log by this id. */
  readonly requestId: string | undefined
  /** The whole body, such as `error` of an endpoint of OAuth. */
  readonly body: Record<string, unknown>
}
