// What calls throw.
export class PosternError extends Error {
  get name() {
    return this.constructor.name
  }
}
export class NotReached extends PosternError {}
export class TimedOut extends NotReached {}
export class UnexpectedAnswer extends PosternError {}
export class ApiError extends PosternError {
  constructor(message, { status, code, retryAfter, requestId, body }) {
    super(`${message} (${code || status})`)
    Object.assign(this, { status, code, retryAfter, requestId, body })
  }
}
