import { readOverlay } from "../config/server-tables.ts";
import { asObject, asText } from "../lenient.ts";
import { type KeyPath, withoutUndefined } from "../json.ts";
import type { Problem } from "../problem.ts";
import { saysKind } from "./lay-task-servers.ts";
import { serverNames } from "./task-servers.ts";
import type { ParseTaskOptions } from "./task-options.ts";
import { stepPhases, type TaskView } from "./view-task.ts";
import type { StepView } from "./view-steps.ts";
import { walkViews } from "./walk-views.ts";

/** A variant of the eval that lacks servers which a task has without it. */
export interface LackingVariant {
  readonly name: string;
  readonly lost: readonly string[];
}

/** The variants that lack servers of the task, but for servers that it `requires`: there it is skipped. */
export function lackingVariants(view: TaskView, { provided }: ParseTaskOptions): readonly LackingVariant[] {
  const { started, required } = view.servers;
  return (provided?.variants ?? []).flatMap(({ name, written }) => {
    const there = startedIn(view, Object.keys(written));
    const lost = started.filter((server) => !there.includes(server) && !required.includes(server));
    return lost.length === 0 ? [] : [{ name, lost }];
  });
}

/** A step names its server itself, so in a variant that lacks the server it could only break. */
export function checkVariants(view: TaskView, variants: readonly LackingVariant[]): Problem[] {
  if (variants.length === 0) return [];
  const steps = stepPhases.flatMap((phase) => [...walkViews(view.steps[phase])]);
  const calls = steps.flatMap(callOf);
  return variants.flatMap(({ name, lost }) =>
    calls.filter(({ server }) => lost.includes(server)).map((call) => problem(call, name, view)),
  );
}

interface Call {
  /** Id of the step. */
  readonly step: string;
  readonly server: string;
  readonly path: KeyPath;
  readonly at: "key" | "value";
}

/** The server that a step names. */
function callOf({ kind, first, body, bodyPath: path, id: step }: StepView): Call[] {
  if (kind === "call") return [{ step, server: first, path, at: "key" }];
  const server = kind === "mcp" ? asText(asObject(body)["server"]) : undefined;
  return server === undefined ? [] : [{ step, server, path: [...path, "server"], at: "value" }];
}

/** The servers that a trial of the task starts in a variant; an entry that changes a server changes none where that is lacking. */
function startedIn({ spec }: TaskView, variant: readonly string[]): readonly string[] {
  const table = readOverlay(spec, ["spec"])?.table ?? {};
  return serverNames(spec, variant).started.filter(
    (name) => variant.includes(name) || saysKind(table[name] ?? null),
  );
}

function problem({ step, server, path, at }: Call, variant: string, { metadata }: TaskView): Problem {
  const task = JSON.stringify(asText(metadata["name"]) ?? "");
  const lost = `the server ${JSON.stringify(server)}, which the variant ${JSON.stringify(variant)} lacks`;
  const message = `step ${step} of the task ${task} calls ${lost}`;
  return { code: "config/unknown-reference", message, path, at, hint: wayOut };
}

const wayOut =
  "Keep the server in that variant, or let the task require it (requires: [{ server: NAME }]), so that it is skipped there.";

/** Problems of a task in a variant, without those that it has in any case. */
export function onlyInVariant(
  { name }: LackingVariant,
  found: readonly Problem[],
  always: readonly Problem[],
): Problem[] {
  const known = new Set(always.map(keyOf));
  return found
    .filter((each) => !known.has(keyOf(each)))
    .map(({ code, message, path, at, text }) =>
      withoutUndefined({
        code,
        message: `${message} in the variant ${JSON.stringify(name)}`,
        path,
        at,
        text,
        hint: wayOut,
      }),
    );
}

function keyOf({ message, path }: Problem): string {
  return JSON.stringify([message, path]);
}
