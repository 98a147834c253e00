import { taskRoots } from "../../templates/scope.ts";
import { readOverlay } from "../config/server-tables.ts";
import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json } from "../model.ts";
import type { Problem } from "../problem.ts";
import { saysKind } from "./lay-task-servers.ts";
import { checkStateProbe } from "./check-state-probe.ts";
import { staticText } from "./check-text.ts";
import type { TaskView } from "./view-task.ts";
import type { StepView } from "./view-steps.ts";
import { type PhasedView, phasedViews } from "./walk-views.ts";

/** A name and where it stands. */
export interface Place {
  readonly name: string;
  readonly path: KeyPath;
}

/** Checks the names that the parts of a task have, and those that they call each other by. */
export function checkNames(view: TaskView): Problem[] {
  const phased = phasedViews(view);
  const steps = phased.map((each) => each.view);
  return [
    ...duplicates([...steps.flatMap(idPlace), ...solutionIds(view)], "steps have the id"),
    ...checkImports(view),
    ...checkInheritedServers(view),
    ...checkAnswers(view),
    ...steps.flatMap((step) => checkServer(step, view)),
    ...steps.flatMap(checkVariable),
    ...phased.flatMap(checkPhase),
    ...checkStateProbe(view, steps),
  ];
}

/** Ids of the actions of a task's solution, those inside others included. */
export function solutionIds(view: TaskView): Place[] {
  return idsOfActions(view.spec["solution"], ["spec", "solution"]);
}

function idsOfActions(list: Json | undefined, path: KeyPath): Place[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((action: Json, index) => {
    const [key = ""] = isJsonObject(action) ? Object.keys(action) : [];
    const body = isJsonObject(action) ? action[key] : undefined;
    if (!isJsonObject(body)) return [];
    const at = [...path, index, key];
    const { id } = body;
    if (key === "foreach") return idsOfActions(body["steps"], [...at, "steps"]);
    return typeof id === "string" ? [{ name: id, path: [...at, "id"] }] : [];
  });
}

function idPlace({ ownId, bodyPath }: StepView): Place[] {
  return ownId === undefined ? [] : [{ name: ownId, path: [...bodyPath, "id"] }];
}

function duplicates(places: readonly Place[], what: string): Problem[] {
  const first = new Map<string, KeyPath>();
  return places.flatMap(({ name, path }) => {
    const earlier = first.get(name);
    if (earlier === undefined) first.set(name, path);
    if (earlier === undefined) return [];
    const both = `${formatKeyPath(earlier)} and ${formatKeyPath(path)}`;
    const message = `two ${what} ${JSON.stringify(name)}: ${both}`;
    const hint = "Rename one of them.";
    return [{ code: "config/duplicate-name", message, path, at: "value", alsoAt: earlier, hint }];
  });
}

function checkImports({ spec, servers }: TaskView): Problem[] {
  const imports: readonly Json[] = Array.isArray(spec["imports"]) ? spec["imports"] : [];
  const places = imports.flatMap((each, index): Place[] => {
    const name = isJsonObject(each) ? each["as"] : undefined;
    return typeof name === "string" ? [{ name, path: ["spec", "imports", index, "as"] }] : [];
  });
  const taken = places.filter(({ name }) => servers.known.includes(name));
  return [
    ...duplicates(places, "imports are named"),
    ...taken.map(({ name, path }): Problem => {
      const message = `an import and a server are both named ${JSON.stringify(name)}`;
      return { code: "config/duplicate-name", message, path, at: "value", hint: "Rename the import." };
    }),
  ];
}

/** What is taken away or changed is what the eval provides, and nothing else. */
function checkInheritedServers({ spec, provided }: TaskView): Problem[] {
  const overlay = readOverlay(spec, ["spec"]);
  if (overlay === undefined) return [];
  const { table, place } = overlay;
  const known = table["inherit"] === false ? [] : provided;
  return Object.entries(table).flatMap(([name, server]): Problem[] => {
    if (typeof server === "boolean" || saysKind(server) || known.includes(name)) return [];
    const problem = unknown("server of the eval", { name, path: place([name]) }, known);
    if (server === null) return [problem];
    return [{ ...problem, at: "key", hint: `${problem.hint ?? ""} A new one needs command, url or mock.` }];
  });
}

/** Answers are for servers that there are. */
function checkAnswers({ spec, servers }: TaskView): Problem[] {
  const answers: readonly Json[] = Array.isArray(spec["elicitation"]) ? spec["elicitation"] : [];
  return answers.flatMap((answer, index) => {
    const name = isJsonObject(answer) ? answer["server"] : undefined;
    if (typeof name !== "string" || servers.known.includes(name)) return [];
    return [unknown("server", { name, path: ["spec", "elicitation", index, "server"] }, servers.known)];
  });
}

function checkServer({ kind, body, bodyPath }: StepView, { servers }: TaskView): Problem[] {
  const name = kind === "mcp" && isJsonObject(body) ? body["server"] : undefined;
  if (typeof name !== "string" || servers.known.includes(name) || staticText(name, new Map()) === undefined) {
    return [];
  }
  return [unknown("server", { name, path: [...bodyPath, "server"] }, servers.known)];
}

function unknown(kind: string, { name, path }: Place, known: readonly string[]): Problem {
  const message = `no ${kind} is named ${JSON.stringify(name.slice(0, 80))}`;
  const hint = suggestion(name, known, `${kind.replace(" of the eval", "")}s`);
  return { code: "config/unknown-reference", message, path, at: "value", hint };
}

function checkVariable({ kind, body, bodyPath }: StepView): Problem[] {
  const name = kind === "foreach" && isJsonObject(body) ? body["var"] : undefined;
  if (!taskRoots.some((root) => root === name)) return [];
  const path = [...bodyPath, "var"];
  const message = `${formatKeyPath(path)} must not be one of ${taskRoots.join(", ")}: these mean something already`;
  return [{ code: "config/invalid-value", message, path, at: "value" }];
}

function checkPhase({ view: { kind, path }, phase }: PhasedView): Problem[] {
  if (kind !== "llm" || phase === "verify") return [];
  const message = `${formatKeyPath(path)}: the step llm can only stand in verify`;
  return [{ code: "config/invalid-value", message, path: [...path, "llm"], at: "key" }];
}
