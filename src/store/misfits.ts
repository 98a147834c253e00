import type * as z from "zod";
import { McpvalsError } from "../base/error.ts";
import { formatKeyPath, type KeyPath } from "../base/json.ts";
import type { TraceEvent } from "../model/event.ts";
import { traceEventSchema } from "../model/event-schema.ts";
import { planModel } from "../model/plan.ts";
import { resultSchema, runHeadSchema } from "../model/result.ts";
import { readTrials } from "./journal.ts";
import { hasFile, readDocument } from "./run-folder.ts";

/** Whether the schemas hold is not checked when a run is read, which would take too long; but where reading fails, they say why. */
const documents: Readonly<Record<string, z.ZodType>> = {
  "run.json": runHeadSchema,
  "plan.json": planModel,
  "result.json": resultSchema,
};

/** The first thing in a run folder that is not as its schema says, as `store/corrupt`; undefined: there is none. Throws `store/corrupt`, too. */
export async function misfitIn(folder: string): Promise<McpvalsError | undefined> {
  for (const [name, schema] of Object.entries(documents)) {
    if (!(await hasFile(folder, name))) continue;
    const issue = firstIssue(schema, readDocument(folder, name, []));
    if (issue !== undefined) return misfit(`${name} in ${folder}`, issue);
  }
  for await (const { events } of readTrials(folder)) {
    const found = misfitOf(events.map(({ event }) => event));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The first of a trial's events that is not as its schema says, as `store/corrupt`; undefined: there is none. */
export function misfitOf(events: readonly TraceEvent[]): McpvalsError | undefined {
  for (const event of events) {
    const issue = firstIssue(traceEventSchema, event);
    if (issue !== undefined)
      return misfit(`event ${event.seq} of trial ${event.trial} (${event.type})`, issue);
  }
  return undefined;
}

/** Why events cannot be read: the first of them that is not as its schema says, or else what was thrown. */
export function explained(thrown: unknown, events: readonly TraceEvent[]): unknown {
  return thrown instanceof McpvalsError ? thrown : (misfitOf(events) ?? thrown);
}

function firstIssue(schema: z.ZodType, value: unknown): string | undefined {
  const parsed = schema.safeParse(value);
  if (parsed.success) return undefined;
  const { path, message } = innermost(parsed.error.issues);
  return path.length === 0 ? message : `${formatKeyPath(path)}: ${message}`;
}

/** The issue that says most: of what may be one of several things, that with the one it is most like. */
function innermost([first]: readonly z.core.$ZodIssue[]): {
  readonly path: KeyPath;
  readonly message: string;
} {
  const path = (first?.path ?? []).map((key) => (typeof key === "symbol" ? String(key) : key));
  const message = first?.message ?? "";
  if (first?.code !== "invalid_union") return { path, message };
  const [likeliest] = first.errors.toSorted((a, b) => depthOf(b) - depthOf(a));
  if (depthOf(likeliest ?? []) === 0 || likeliest === undefined) return { path, message };
  const inner = innermost(likeliest);
  return { path: [...path, ...inner.path], message: inner.message };
}

/** How far into a value the first issue is. */
function depthOf([first]: readonly z.core.$ZodIssue[]): number {
  return first?.path.length ?? 0;
}

function misfit(where: string, issue: string): McpvalsError {
  return new McpvalsError("store/corrupt", `${where} is not as mcpvals writes it: ${issue}`, {
    hint: "It was changed after it was written, or another version of mcpvals wrote it.",
  });
}
