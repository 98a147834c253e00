import { McpvalsError } from "../../core/errors/error.ts";

/** What a program does that does not know the protocol: it ends, keeps silent, or answers something else. */
const strange = new Set(["extension/crashed", "extension/timeout", "extension/protocol"]);

/** The error for an extension without `extension.yaml` that does not speak JSON-RPC either; any other stays as it is. */
export function unknownProtocol(alias: string, error: unknown): unknown {
  if (!(error instanceof McpvalsError) || !strange.has(error.code)) return error;
  const { detail } = error.details;
  return new McpvalsError(
    "extension/start-failed",
    `extension "${alias}" has no extension.yaml, and does not speak JSON-RPC: ${error.message}`,
    {
      hint: "Let it answer initialize on stdin with one line of JSON-RPC, or give it an extension.yaml, with protocol: one-shot where it is started as PROGRAM action|check NAME --input FILE.",
      ...(detail === undefined ? {} : { detail }),
      cause: error,
    },
  );
}
