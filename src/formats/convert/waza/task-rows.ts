import * as z from "zod";
import { type JsonObject, type KeyPath, withoutUndefined } from "../../../base/json.ts";
import { closedObject, filledText } from "../../../model/fields.ts";
import { triggerAccuracy } from "../../../graders/declared.ts";

/** A row of a CSV file: the offset of its first character, and its cells. */
export interface Row {
  readonly at: number;
  readonly cells: readonly string[];
}

/**
 * Splits a CSV text (RFC 4180) into rows; lines without a character are left out. Undefined when a quoted cell does not end, or
 * goes on after its last quote.
 */
export function parseCsv(text: string): readonly Row[] | undefined {
  const cell = /"([^"]*(?:""[^"]*)*)"(?=,|\r?\n|$)|([^",\r\n][^,\r\n]*|)(?=,|\r?\n|$)/y;
  const rows: Row[] = [];
  let [at, cells]: [number, string[]] = [text.startsWith("\uFEFF") ? 1 : 0, []];
  let start = at;
  while (at <= text.length) {
    cell.lastIndex = at;
    const found = cell.exec(text);
    if (found === null) return undefined;
    const [whole, quoted, plain = ""] = found;
    cells.push(quoted?.replaceAll('""', '"') ?? plain);
    at += whole.length;
    if (text[at] === ",") at += 1;
    else {
      if (cells.length > 1 || cells[0] !== "" || quoted !== undefined) rows.push({ at: start, cells });
      at += text.startsWith("\r\n", at) ? 2 : 1;
      [start, cells] = [at, []];
    }
  }
  return rows;
}

/** A task that a row stands for: its document, and the variables of its prompt. */
export interface RowTask {
  readonly at: number;
  readonly document: JsonObject;
  readonly variables: Readonly<Record<string, string>>;
}

/** Makes tasks of rows below their header. Gives what is wrong where they cannot be. */
export function tasksOfRows(
  [header, ...rows]: readonly Row[],
  range: readonly [first: number, last: number] | undefined,
): readonly RowTask[] | RowProblem {
  if (header === undefined) return { at: 0, message: "has no row" };
  const { cells: columns } = header;
  if (!columns.includes("prompt")) return { at: header.at, message: "has no column prompt" };
  if (new Set(columns).size < columns.length)
    return { at: header.at, message: "has two columns of one name" };
  const uneven = rows.find(({ cells }) => cells.length !== columns.length);
  if (uneven !== undefined) {
    const { at, cells } = uneven;
    return { at, message: `has a row with ${cells.length} cells and a header with ${columns.length}` };
  }
  const [first, last] = range ?? [1, rows.length];
  const tasks = rows.map(({ at, cells }, index): RowTask => {
    const variables = Object.fromEntries(columns.map((column, place) => [column, cells[place] ?? ""]));
    const { id, name, prompt = "" } = variables;
    const named = name === undefined || name === "" ? {} : { name };
    const document = { id: id || name || `row-${index + 1}`, ...named, inputs: { prompt } };
    return { at, document, variables };
  });
  const chosen = tasks.slice(first - 1, last);
  return chosen.length > 0 ? chosen : { at: header.at, message: "has no row in this range" };
}

/** What is wrong with a CSV file, and where. */
export interface RowProblem {
  readonly at: number;
  readonly message: string;
}

/** A prompt whose variables are filled in; or what is wrong with it. */
export type FilledPrompt = { readonly text: string } | { readonly wrong: string; readonly hint: string };

/** Fills in `{{.Vars.NAME}}` and `{{.TaskName}}`, of all that templates of that tool know. */
export function fillPrompt(
  prompt: string,
  {
    taskName,
    variables,
  }: { readonly taskName: string; readonly variables: Readonly<Record<string, string>> },
): FilledPrompt {
  const names = Object.keys(variables).join(", ");
  let wrong: Exclude<FilledPrompt, { readonly text: string }> | undefined;
  const text = prompt.replaceAll(/\{\{([^{}]*)\}\}/g, (whole, inner: string) => {
    const expression = inner.replaceAll(/^-\s|\s-$/g, "").trim();
    if (expression === ".TaskName") return taskName;
    const name = /^\.Vars\.(.+)$/s.exec(expression)?.[1];
    if (name !== undefined && Object.hasOwn(variables, name)) return variables[name] ?? "";
    const shown = whole.slice(0, 80);
    wrong ??=
      name === undefined
        ? {
            wrong: `${shown} cannot be filled in`,
            hint: "Prompts of an eval with inputs or tasks_from may have {{.Vars.NAME}} and {{.TaskName}}.",
          }
        : { wrong: `${shown} names no variable`, hint: `There are: ${names}.` };
    return whole;
  });
  return wrong ?? { text };
}

const prompts = z
  .array(
    closedObject({
      prompt: filledText.describe("What the user says."),
      reason: z.string().optional().describe("Why it should, or should not."),
      confidence: z
        .enum(["", "high", "medium"])
        .default("high")
        .describe("How sure that is: `medium` counts half in `trigger_accuracy`."),
    }),
  )
  .default([]);

/** A `trigger_tests.yaml` of waza: prompts that should lead to a skill, and prompts that should not. A server or tool is an addition. */
export const triggerTestsSchema = closedObject({
  $schema: z.string().optional(),
  skill: filledText.optional().describe("Name of the skill."),
  server: filledText.optional().describe("Name of a server, instead of a skill."),
  tool: filledText.optional().describe("Name of a tool, instead of a skill."),
  should_trigger_prompts: prompts,
  should_not_trigger_prompts: prompts,
})
  .refine(({ skill, server, tool }) => (skill ?? server ?? tool) !== undefined, {
    path: ["skill"],
    error: "or write server, or tool",
  })
  .refine(({ skill, server, tool }) => skill === undefined || (server ?? tool) === undefined, {
    path: ["skill"],
    error: "must have no server or tool beside it",
  })
  .refine((tests) => tests.should_trigger_prompts.length + tests.should_not_trigger_prompts.length > 0, {
    path: ["should_trigger_prompts"],
    error: "or write should_not_trigger_prompts",
  });

/** The document of a task that a prompt stands for, and the place of the prompt. */
export interface TriggerTask {
  readonly path: KeyPath;
  readonly document: JsonObject;
}

const modes = [
  { key: "should_trigger_prompts", id: "should-trigger", mode: "positive" },
  { key: "should_not_trigger_prompts", id: "should-not-trigger", mode: "negative" },
] as const;

/** Makes a task of each prompt, in the order of the file. */
export function tasksOfTriggerTests(tests: z.output<typeof triggerTestsSchema>): readonly TriggerTask[] {
  const { skill, server, tool } = tests;
  return modes.flatMap(({ key, id, mode }) =>
    tests[key].map(({ prompt, reason, confidence }, index): TriggerTask => {
      const weight = confidence === "medium" ? 0.5 : 1;
      const config = withoutUndefined({ skill, server, tool, mode });
      const document = withoutUndefined({
        id: `${id}-${index + 1}`,
        description: reason,
        tags: ["trigger"],
        inputs: { prompt },
        graders: [{ type: "trigger", name: triggerAccuracy, weight, config }],
      });
      return { path: [key, index], document };
    }),
  );
}
