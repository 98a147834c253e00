import { formatKeyPath } from "../key-path.ts";
import { asObject, asText } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import { isFromOutside, partsOf } from "./check-text.ts";
import type { PlacedNote } from "./task-notes.ts";
import type { Locals } from "./template-names.ts";
import type { StepView } from "./view-steps.ts";

export interface CheckedComparisons {
  readonly problems: readonly Problem[];
  readonly notes: readonly PlacedNote[];
}

/**
 * Refuses checks that compare a value from outside with itself, and notes those that could: where a step is given what the
 * agent said, whatever only repeats that satisfies a check for it.
 */
export function checkComparisons(view: StepView, locals: Locals): CheckedComparisons {
  const body = asObject(view.body);
  switch (view.kind) {
    case "llm":
      return { problems: judgedByItself(view, locals), notes: [] };
    case "command":
      return checkRepeated(view, { given: [body["run"], body["stdin"]], locals });
    case "http":
      return checkRepeated(view, { given: [body["url"], body["body"]], locals });
    case "mcp":
    case "call":
      return checkRepeated(view, { given: [body["args"], body["resource"]], locals });
    default:
      return { problems: [], notes: [] };
  }
}

function judgedByItself({ body, bodyPath }: StepView, locals: Locals): Problem[] {
  const input = asObject(body)["input"] ?? "{agent.output}";
  const judged = valuesIn(input, locals);
  return ["contains", "exact", "rubric"].flatMap((key): Problem[] => {
    const reference = asText(asObject(body)[key]) ?? "";
    const same = [...valuesIn(reference, locals)].find((value) => judged.has(value));
    if (same === undefined) return [];
    const path = [...bodyPath, key];
    const message = `${formatKeyPath(path)}: the judge would compare {${same}} with itself`;
    return [{ code: "config/checks-nothing", message, path, at: "value", hint: ownWords }];
  });
}

const ownWords = "Write what the text has to say in your own words, or as an earlier step gave it.";

interface Repeated {
  /** What the step is given. */
  readonly given: readonly unknown[];
  readonly locals: Locals;
}

function checkRepeated(view: StepView, { given, locals }: Repeated): CheckedComparisons {
  const values = new Set(given.flatMap((each) => [...valuesIn(each, locals)]));
  const path = [...view.bodyPath, "expect"];
  const same = [...valuesIn(asObject(view.body)["expect"], locals)].find((value) => values.has(value));
  if (same === undefined) return { problems: [], notes: [] };
  const told = `${formatKeyPath(path)} asks for {${same}}, which the step is given`;
  if (isEcho(view, locals)) {
    const message = `${told} and only repeats`;
    return {
      problems: [{ code: "config/checks-nothing", message, path, at: "value", hint: ownWords }],
      notes: [],
    };
  }
  if (!same.startsWith("agent.")) return { problems: [], notes: [] };
  return { problems: [], notes: [{ message: `${told}: what only repeats it would pass`, path }] };
}

/** Whether a step does nothing but write what it is given. */
function isEcho({ kind, body }: StepView, locals: Locals): boolean {
  const run = kind === "command" ? asText(asObject(body)["run"]) : undefined;
  const literal = partsOf(run ?? "", locals).map((part) => (typeof part === "string" ? part : "x"));
  return /^\s*(?:echo|printf|cat)\b[^|&;<>\n`$]*$/.test(literal.join(""));
}

/** What the expressions in a value stand for, without filters, if it comes from outside. */
function valuesIn(value: unknown, locals: Locals): ReadonlySet<string> {
  if (typeof value === "string") {
    const names = partsOf(value, locals).flatMap((part) =>
      typeof part === "object" && isFromOutside(part, locals) ? [[part.root, ...part.names].join(".")] : [],
    );
    return new Set(names);
  }
  if (typeof value !== "object" || value === null) return new Set();
  return new Set(Object.values(value).flatMap((member) => [...valuesIn(member, locals)]));
}
