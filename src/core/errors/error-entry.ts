/** Who has to act on an error. `usage` exits with 2; `environment` and `timeout` make a trial `error` or `timeout`. */
export type ErrorKind = "usage" | "environment" | "timeout" | "interrupted" | "bug";

export interface ErrorEntry {
  readonly kind: ErrorKind;
  readonly title: string;
  readonly help: string;
}
