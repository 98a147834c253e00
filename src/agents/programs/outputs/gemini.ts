import { objectOf, textOf, type WireObject } from "../acp-values.ts";
import { countOf, optional, type OutputEvent, type OutputReader, usageOf } from "./output-reader.ts";

/** Reads what `gemini --output-format stream-json` prints. */
export function readGemini(): OutputReader {
  const names = new Map<string, string>();
  let said = "";
  const finish = (): readonly OutputEvent[] => {
    const text = said;
    said = "";
    return text === "" ? [] : [{ kind: "message", text }];
  };
  return {
    lastEvent: "result",
    finish,
    read(line) {
      switch (line["type"]) {
        case "init": {
          const id = textOf(line["session_id"]);
          return id === undefined ? [] : [{ kind: "session", id }];
        }
        case "message": {
          if (line["role"] !== "assistant") return [];
          // Pieces of one message follow each other.
          const earlier = line["delta"] === true ? [] : finish();
          said += textOf(line["content"]) ?? "";
          return earlier;
        }
        case "tool_use": {
          const callId = textOf(line["tool_id"]) ?? "";
          const name = textOf(line["tool_name"]) ?? "";
          names.set(callId, name);
          const args = optional("args", line["parameters"]);
          return [...finish(), { kind: "tool", callId, name, status: "started", ...args }];
        }
        case "tool_result":
          return [...finish(), readResult(line, names)];
        case "result":
          return [...finish(), ...readEnd(line), { kind: "complete" }];
        default:
          return [];
      }
    },
  };
}

function readResult(line: WireObject, names: ReadonlyMap<string, string>): OutputEvent {
  const callId = textOf(line["tool_id"]) ?? "";
  const status = line["status"] === "error" ? "failed" : "completed";
  const result = optional("result", line["output"] ?? objectOf(line["error"])["message"]);
  return { kind: "tool", callId, name: names.get(callId) ?? "", status, ...result };
}

function readEnd(line: WireObject): readonly OutputEvent[] {
  const stats = objectOf(line["stats"]);
  const usage = usageOf({
    input: countOf(stats["input_tokens"]),
    output: countOf(stats["output_tokens"]),
    cacheRead: countOf(stats["cached"]),
    cacheWrite: 0,
  });
  const models = Object.keys(objectOf(stats["models"]));
  const ran = models.map((model) => ({ kind: "ran", model }) as const);
  const events: OutputEvent[] = line["stats"] === undefined ? [] : [...ran, { kind: "usage", usage }];
  if (line["status"] !== "error") return events;
  return [...events, { kind: "failed", message: textOf(objectOf(line["error"])["message"]) ?? "it failed" }];
}
