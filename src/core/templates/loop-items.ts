import { McpvalsError } from "../errors/error.ts";
import type { Json } from "../formats/model.ts";
import { shortened } from "../text/shortened.ts";

/**
 * The items that a `foreach` goes through: a list, or a text that is one in JSON. `written` is what stands in the file.
 * Throws `task/template` for anything else.
 */
export function loopItems(value: Json, written: Json): readonly Json[] {
  const list = typeof value === "string" ? parsed(value) : value;
  if (Array.isArray(list)) return list;
  const shown = typeof value === "string" ? value : JSON.stringify(value);
  throw new McpvalsError(
    "task/template",
    `foreach goes through a JSON list, and ${JSON.stringify(written)} gives ${JSON.stringify(shortened(shown, 200))}`,
    { hint: 'Give a list, or a template that yields one, such as "{steps.ID.outputs.NAME | json $.items}".' },
  );
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // said by the caller, who knows where the text is from
  }
}
