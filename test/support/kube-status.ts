/** An object that says how a request ended. */
export function statusAnswer({
  status,
  message,
  reason,
  details,
}: {
  status: number;
  message: string;
  reason?: string;
  details?: object;
}): { status: number; body: object } {
  const body = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(details === undefined ? {} : { details }),
    code: status,
  };
  return { status, body };
}
