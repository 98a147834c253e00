/** An error of a request, with its HTTP status. */
export class Problem extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const notFound = (what) => new Problem(404, "not_found", `there is no ${what}`);
export const conflict = (message) => new Problem(409, "conflict", message);
export const invalid = (message) => new Problem(422, "invalid", message);
