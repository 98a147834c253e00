import type { KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { AgentRef } from "./eval-file.ts";
import type { ParsedAgentRef } from "./eval-schema.ts";
import { modelId } from "./model-id.ts";

/** Reads a reference to an agent. Undefined for one that is wrong; why is among the reader's problems. */
export function readAgentRef(
  ref: ParsedAgentRef,
  path: KeyPath,
  reader: LenientReader,
): AgentRef | undefined {
  switch (ref.type) {
    case "file":
      return fileRef(ref, path, reader);
    case "builtin.claude-code":
      return { kind: "claude-code" };
    case "builtin.llm-agent":
      return modelRef(ref, path, reader);
    case "builtin.openai-agent":
    case "builtin.openai-acp":
      reader.note(`${ref.type} is the old name of builtin.llm-agent`, [...path, "type"]);
      return modelRef(ref, path, reader, "openai");
  }
}

function fileRef(
  { path: file, model }: ParsedAgentRef,
  path: KeyPath,
  reader: LenientReader,
): AgentRef | undefined {
  if (model !== undefined)
    reader.note("model has no effect: the agent's file says which", [...path, "model"]);
  if (file !== undefined && file !== "") return { kind: "file", path: file };
  reader.problem({
    code: "config/missing-key",
    message: 'an agent with type "file" needs path',
    path,
    at: "value",
  });
  return undefined;
}

function modelRef(
  { model = "" }: ParsedAgentRef,
  path: KeyPath,
  reader: LenientReader,
  usual?: string,
): AgentRef | undefined {
  const id = modelId(model, usual);
  if (id !== undefined) return { kind: "llm-agent", model: id };
  reader.refuse("model must be PROVIDER:MODEL, such as anthropic:claude-sonnet-4-5", [...path, "model"]);
  return undefined;
}
