/** Codes of JSON-RPC, and `failed` of the extensions' protocol: it cannot be known whether what was asked holds. */
export const rpcCodes = {
  invalidJson: -32700,
  invalidRequest: -32600,
  unknownMethod: -32601,
  invalidParams: -32602,
  internal: -32603,
  failed: -32000,
} as const;

/** What a request is answered with instead of a result. */
export class RpcError extends Error {
  readonly code: number;

  constructor(kind: keyof typeof rpcCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "RpcError";
    this.code = rpcCodes[kind];
  }
}
