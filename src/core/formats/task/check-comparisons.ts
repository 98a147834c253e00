import { formatKeyPath, type KeyPath } from "../json.ts";
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
  const { problems, notes } = comparisonsOf(view, locals);
  return { problems, notes: [...notes, ...agentsNotes(view, locals)] };
}

function comparisonsOf(view: StepView, locals: Locals): CheckedComparisons {
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

/** Notes on what is left to the agent: whether a step is run at all, and what a text has to contain. */
function agentsNotes({ path, body, bodyPath }: StepView, locals: Locals): PlacedNote[] {
  const { if: condition, expect } = asObject(body);
  const isCheck = path[1] === "verify" && saysAgent(condition, locals);
  const skipped = `${formatKeyPath([...bodyPath, "if"])}: what the agent says decides whether this is checked`;
  return [
    ...(isCheck ? [{ message: skipped, path: [...bodyPath, "if"] }] : []),
    ...wantedIn(expect, [...bodyPath, "expect"])
      .filter(({ value }) => saysAgent(value, locals))
      .map((wanted) => ({
        message: `${formatKeyPath(wanted.path)}: the agent says what has to be there; an answer of one letter is in nearly every text`,
        path: wanted.path,
      })),
  ];
}

/** Every `contains` and `matches` of an expectation. */
function wantedIn(value: unknown, path: KeyPath): { readonly value: unknown; readonly path: KeyPath }[] {
  if (typeof value !== "object" || value === null) return [];
  const members = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return members.flatMap(([key, member]: [string | number, unknown]) =>
    key === "contains" || key === "matches"
      ? [{ value: member, path: [...path, key] }]
      : wantedIn(member, [...path, key]),
  );
}

function saysAgent(value: unknown, locals: Locals): boolean {
  return [...valuesIn(value, locals)].some((name) => name.startsWith("agent."));
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
