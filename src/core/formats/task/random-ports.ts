import { type Expression, parseTemplate } from "../../templates/parse-template.ts";
import type { Json } from "../model.ts";

/** The names that `{random.port}` is used with anywhere in the values; "" for the plain form. */
export function randomPorts(values: readonly Json[]): string[] {
  const names = values.flatMap((value) => [...textsIn(value)]).flatMap(portsIn);
  return [...new Set(names)];
}

function* textsIn(value: Json): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null) {
    for (const member of Object.values(value)) yield* textsIn(member);
  }
}

function portsIn(text: string): string[] {
  if (!text.includes("random")) return [];
  return parseTemplate(text, (root) => root === "random")
    .filter((part): part is Expression => typeof part === "object")
    .filter(({ names }) => names.join(".") === "port")
    .map(({ variant = "" }) => variant);
}
