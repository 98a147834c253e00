import { objectOf, textOf, type WireObject } from "./acp-values.ts";

/** The setting of a session by which an agent lets its model be chosen. */
export interface ModelSetting {
  readonly configId: string;
  /** Values that can be chosen. */
  readonly values: readonly string[];
  readonly current: string | undefined;
}

/** Finds that setting in the answer to `session/new`; undefined when the agent has none. */
export function modelSetting(session: WireObject): ModelSetting | undefined {
  const options = listOf(session["configOptions"]);
  const setting = options.find((option) => option["category"] === "model" && option["type"] === "select");
  const configId = textOf(setting?.["id"]);
  if (setting === undefined || configId === undefined) return undefined;
  const choices = listOf(setting["options"]).flatMap((choice) =>
    "options" in choice ? listOf(choice["options"]) : [choice],
  );
  return {
    configId,
    values: choices.flatMap((choice) => textOf(choice["value"]) ?? []),
    current: textOf(setting["currentValue"]),
  };
}

function listOf(value: unknown): readonly WireObject[] {
  return Array.isArray(value) ? value.map(objectOf) : [];
}
