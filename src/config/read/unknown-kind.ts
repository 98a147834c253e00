import { McpvalsError } from "../../core/errors/error.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import type { ConfigDocument } from "./document.ts";
import { memberNamed } from "./document-kind.ts";

/** The error for a document whose kind is none that there is; `shown` is the file in messages. */
export function unknownKind(
  document: ConfigDocument,
  shown: string,
  root: ReadonlyMap<string, unknown>,
): McpvalsError {
  const [key, kind] = memberNamed(root, "kind");
  const location = document.locate({ path: [key], at: "value" });
  const frame = location === undefined ? undefined : document.source?.frame(location);
  const hint = suggestion(String(kind), ["Task", "Eval", "Agent"], "kinds");
  const message = `${shown} is of a kind that is not known`;
  return new McpvalsError("config/invalid-value", message, {
    diagnostics: [
      {
        code: "config/invalid-value",
        message,
        hint: `${hint} A config has no kind.`,
        ...(location === undefined ? {} : { location }),
        ...(frame === undefined ? {} : { frame }),
      },
    ],
  });
}
