import { McpvalsError } from "../../core/errors/error.ts";

const answer = "Let it answer initialize with one line of JSON-RPC on stdout.";
const oneShot =
  "One that is started as PROGRAM action|check NAME --input FILE needs an extension.yaml with protocol: one-shot.";
/** What is most likely the matter. */
const hints: Readonly<Record<string, string>> = {
  "extension/crashed": `See what it wrote on stderr. ${oneShot}`,
  "extension/timeout": `${answer} What a program prints may be held back: flush stdout after each line. ${oneShot}`,
};

/** What a program does that does not know the protocol: it ends, keeps silent, or answers something else. */
const strange = new Set(["extension/crashed", "extension/timeout", "extension/protocol"]);

/** The error for an extension without `extension.yaml` that does not speak JSON-RPC either; any other stays as it is. */
export function unknownProtocol(error: unknown): unknown {
  if (!(error instanceof McpvalsError) || !strange.has(error.code)) return error;
  const { detail } = error.details;
  return new McpvalsError(
    error.code === "extension/timeout" ? error.code : "extension/start-failed",
    `${error.message}; it has no extension.yaml, so that it must speak JSON-RPC`,
    {
      hint: hints[error.code] ?? `${answer} ${oneShot}`,
      ...(detail === undefined ? {} : { detail }),
      cause: error,
    },
  );
}
