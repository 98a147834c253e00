import { type Expression, parseTemplate } from "../../templates/parse-template.ts";
import { taskRoots } from "../../templates/scope.ts";
import { readOverlay } from "../config/server-tables.ts";
import { suggestion } from "../did-you-mean.ts";
import { packageProblem } from "../extension/extension-table-schema.ts";
import { parsePackageRef } from "../extension/package-ref.ts";
import {
  asList,
  asObject,
  asText,
  formatKeyPath,
  isJsonObject,
  type KeyPath,
  withoutUndefined,
} from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { checkFilePath, checkTaskPaths } from "./check-paths.ts";
import { type CheckedTemplates, checkTemplates, declaredOutputs } from "./check-templates.ts";
import { staticText, type TaskNames } from "./check-text.ts";
import { checkVerify } from "./check-verify.ts";
import { type ImportView, isGivenByEval, isWord } from "./join-extensions.ts";
import { saysKind } from "./lay-task-servers.ts";
import type { PromptTurn } from "./read-prompt.ts";
import type { ParseTaskOptions, TaskFiles } from "./task-options.ts";
import type { StepView } from "./view-steps.ts";
import {
  type PhasedView,
  phasedViews,
  serverNames,
  stepPhases,
  type TaskView,
  walkViews,
} from "./view-task.ts";

export interface RuleContext {
  readonly options: ParseTaskOptions;
  readonly turns: readonly PromptTurn[];
  /** Problems found before. */
  readonly wrong: readonly Problem[];
}

/** Everything that must hold between the parts of a task. */
export function checkTask(view: TaskView, { options, turns, wrong }: RuleContext): CheckedTemplates {
  const names = namesOf(view, options);
  const { files } = options;
  const templates = checkTemplates(view, turns, { names, files });
  const variants = lackingVariants(view, options);
  // What verify checks cannot be told while something inside it is wrong.
  const isUnsure = wrong.some(({ path }) => path[1] === "verify");
  const verify = isUnsure ? { problems: [], notes: [] } : checkVerify(view.steps.verify, files);
  const problems = [
    ...checkNames(view),
    ...checkExtensions(view, options),
    ...checkVariants(view, variants),
    ...checkTaskPaths(view, files),
    ...templates.problems,
    ...variants.flatMap((variant) => {
      const there = { ...names, urls: names.urls.filter((name) => !variant.lost.includes(name)) };
      const { problems: found } = checkTemplates(view, turns, { names: there, files });
      return onlyInVariant(variant, found, templates.problems);
    }),
    ...checkEnvCircles(view.spec),
    // A key that is not known may be the prompt.
    ...(wrong.some(isUnknownPart) ? [] : checkSolution(view)),
    ...checkLimits(view),
    ...verify.problems,
  ];
  return { problems, notes: [...templates.notes, ...verify.notes] };
}

function isUnknownPart({ code, path }: Problem): boolean {
  return code === "config/unknown-key" && path.length === 2 && path[0] === "spec";
}

/** What templates of a task may refer to. */
export function namesOf(view: TaskView, { variables }: ParseTaskOptions): TaskNames {
  const { spec, servers, steps } = view;
  const own = Object.entries(readOverlay(spec, ["spec"])?.table ?? {});
  const local = own.filter(([, server]) => asObject(server)["command"] !== undefined).map(([name]) => name);
  const required = asList(spec["requires"]).flatMap((each) => asText(asObject(each)["env"]) ?? []);
  const all = [...walkViews([...steps.setup, ...steps.verify, ...steps.cleanup])];
  return {
    env: new Set([...Object.keys(asObject(spec["env"])), ...required]),
    variables,
    urls: servers.known.filter((name) => !local.includes(name)),
    local,
    ids: all.flatMap(({ ownId }) => ownId ?? []),
    solutionIds: solutionIds(view).map(({ name }) => name),
    idsUnsure: view.problems.length > 0,
  };
}

/** A name and where it stands. */
export interface Place {
  readonly name: string;
  readonly path: KeyPath;
}

/** Checks the names that the parts of a task have, and those that they call each other by. */
function checkNames(view: TaskView): Problem[] {
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
function solutionIds(view: TaskView): Place[] {
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

/** What values are made of, by what they are: `env.NAME`, or `servers` for the addresses of all servers. */
type Uses = ReadonlyMap<string, readonly string[]>;

const addresses = "servers";

/** Values of `spec.env` that go round in a circle, each circle once. */
function checkEnvCircles(spec: JsonObject): Problem[] {
  const uses = usesIn(spec);
  const done = new Set<string>();
  return [...uses.keys()].flatMap((start) => {
    const circle = findCircle(start, uses, done);
    if (circle === undefined) return [];
    const name = circle.find((node) => node !== addresses)?.slice("env.".length) ?? "";
    const steps = circle.map((node) => (node === addresses ? "the servers' addresses" : node));
    const shown = steps.length <= 10 ? steps : [...steps.slice(0, 8), "…", ...steps.slice(-1)];
    return [
      {
        code: "config/invalid-value",
        message: `spec.env.${name} goes round in a circle: ${shown.join(" → ")}`,
        path: ["spec", "env", name],
        at: "value",
        hint: "Let one of them stand on its own; a value may use the shell's value of its own name.",
      },
    ];
  });
}

function usesIn(spec: JsonObject): Uses {
  const env = asObject(spec["env"]);
  const nodes = new Set([...Object.keys(env).map((name) => `env.${name}`), addresses]);
  const known = (names: readonly string[]): string[] => names.filter((name) => nodes.has(name));
  const values = Object.entries(env).map(([name, value]): [string, string[]] => {
    const self = `env.${name}`;
    return [self, known(usedBy(value)).filter((used) => used !== self)];
  });
  const urls = Object.values(asObject(spec["servers"])).flatMap((server) => usedBy(asObject(server)["url"]));
  return new Map([...values, [addresses, known(urls).filter((used) => used !== addresses)]]);
}

function usedBy(value: unknown): string[] {
  if (typeof value !== "string") return [];
  return parseTemplate(value, (root) => root === "env" || root === addresses)
    .filter((part): part is Expression => typeof part === "object")
    .flatMap(({ root, names }) => (root === "env" ? names.slice(0, 1).map((name) => `env.${name}`) : [root]));
}

/** A circle that can be reached from a value and was not found before; values are looked at once in all searches. */
function findCircle(start: string, uses: Uses, done: Set<string>): readonly string[] | undefined {
  if (done.has(start)) return undefined;
  const open = [{ node: start, next: 0 }];
  const within = new Map([[start, 0]]);
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const used = uses.get(top.node)?.[top.next];
    top.next += 1;
    if (used === undefined) {
      done.add(top.node);
      within.delete(top.node);
      open.pop();
      continue;
    }
    const begun = within.get(used);
    if (begun !== undefined) {
      for (const { node } of open) done.add(node);
      return [...open.slice(begun).map(({ node }) => node), used];
    }
    if (done.has(used)) continue;
    within.set(used, open.length);
    open.push({ node: used, next: 0 });
  }
  return undefined;
}

/** Checks that a solution has as many turns as the prompt, and that a limit is given once. */
function checkSolution({ spec }: TaskView): Problem[] {
  const { solution, prompt } = spec;
  if (!Array.isArray(solution)) return [];
  const path = ["spec", "solution"];
  if (prompt === undefined) {
    const message = "spec.solution is never played: without spec.prompt no agent takes part";
    return [{ code: "config/invalid-value", message, path, at: "key" }];
  }
  const asked = Array.isArray(prompt) ? prompt.length : 1;
  const played = turnsOf(solution);
  if (played === undefined || played <= asked) return [];
  const message = `spec.solution has ${played} turns, the prompt has ${asked}: each \`say\` ends a turn`;
  const hint = "Leave out a `say`, or what comes after the last one.";
  return [{ code: "config/invalid-value", message, path, at: "value", hint }];
}

/** How many turns a solution takes; undefined when a `foreach` says something, so that it cannot be told. */
function turnsOf(actions: readonly Json[]): number | undefined {
  const keys = actions.map((action) => (isJsonObject(action) ? (Object.keys(action)[0] ?? "") : ""));
  if (actions.some((action) => says(asObject(asObject(action)["foreach"])["steps"]))) return undefined;
  const ended = keys.filter((key) => key === "say").length;
  return keys.at(-1) === "say" ? ended : ended + 1;
}

function says(actions: unknown): boolean {
  if (!Array.isArray(actions)) return false;
  return actions.some((action: unknown) => {
    const { say, foreach } = asObject(action);
    return say !== undefined || says(asObject(foreach)["steps"]);
  });
}

/** The time limit of a task may stand in two places, but not in both. */
function checkLimits({ spec, metadata }: TaskView): Problem[] {
  if (asObject(spec["limits"])["timeout"] === undefined || metadata["timeout"] === undefined) return [];
  return [
    {
      code: "config/duplicate-name",
      message: "the task's time limit is given twice: metadata.timeout and spec.limits.timeout",
      path: ["spec", "limits", "timeout"],
      at: "key",
      alsoAt: ["metadata", "timeout"],
      hint: "Remove one of them.",
    },
  ];
}

/** A variant of the eval that lacks servers which a task has without it. */
export interface LackingVariant {
  readonly name: string;
  readonly lost: readonly string[];
}

/** The variants that lack servers of the task, but for servers that it `requires`: there it is skipped. */
function lackingVariants(view: TaskView, { provided }: ParseTaskOptions): readonly LackingVariant[] {
  const { started, required } = view.servers;
  return (provided?.variants ?? []).flatMap(({ name, written }) => {
    const there = startedIn(view, Object.keys(written));
    const lost = started.filter((server) => !there.includes(server) && !required.includes(server));
    return lost.length === 0 ? [] : [{ name, lost }];
  });
}

/** A step names its server itself, so in a variant that lacks the server it could only break. */
function checkVariants(view: TaskView, variants: readonly LackingVariant[]): Problem[] {
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
function onlyInVariant(
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

/** Checks that what `metadata.stateProbe` names is there: steps, and outputs of theirs. */
function checkStateProbe(view: TaskView, steps: readonly StepView[]): Problem[] {
  const byId = new Map(
    steps.flatMap((step): [string, StepView][] => (step.ownId === undefined ? [] : [[step.ownId, step]])),
  );
  return asList(view.metadata["stateProbe"]).flatMap((probe, index) => {
    if (typeof probe !== "string" || probe.trim() === "") return [];
    const path = ["metadata", "stateProbe", index];
    const [id = "", ...output] = probe.split(".");
    const step = byId.get(id);
    if (step !== undefined) return outputProblems(step, output.join("."), path);
    // A step that could not be read may have that id.
    if (view.problems.length > 0) return [];
    return [
      refer(path, `no step has the id ${JSON.stringify(id)}`, suggestion(id, [...byId.keys()], "step ids")),
    ];
  });
}

function outputProblems(step: StepView, output: string, path: KeyPath): Problem[] {
  const declared = declaredOutputs(step);
  if (declared === "any") return [];
  if (declared.length === 0) return [refer(path, `the step ${step.id} has no outputs`)];
  if (output === "" || declared.includes(output)) return [];
  const message = `the step ${step.id} has no output ${JSON.stringify(output)}`;
  return [refer(path, message, suggestion(output, declared, "outputs"))];
}

function refer(path: KeyPath, what: string, hint?: string): Problem {
  return {
    code: "config/unknown-reference",
    message: `${formatKeyPath(path)}: ${what}`,
    path,
    at: "value",
    ...(hint === undefined ? {} : { hint }),
  };
}

type Options = Pick<ParseTaskOptions, "extensions" | "files">;

/** Checks where the extensions come from that a task imports, or that its steps name by their packages. */
function checkExtensions(view: TaskView, options: Options): Problem[] {
  const steps = stepPhases.flatMap((phase) => [...walkViews(view.steps[phase])]);
  return [
    ...view.importEntries.flatMap((each) => checkImport(each, options)),
    ...steps.flatMap((step) => checkStepPackage(step, view, options)),
    ...steps.flatMap((step) => checkAmbiguous(step, view)),
  ];
}

function checkImport(entry: ImportView, options: Options): Problem[] {
  const { package: written, as, path } = entry;
  const at = [...path, "package"];
  const isGiven = isGivenByEval(entry, options);
  if (!isWord(written)) return checkPackage(written, at, { ...options, isGiven });
  // Where the eval is not known, it may have an extension of that name.
  if (isGiven || options.extensions === undefined) return [];
  const hint = `Write mcpvals:NAME, github.com/ORG/REPO@VERSION, npm:NAME@VERSION or a path such as ./NAME, or declare ${as} in the extensions of the eval.`;
  return packageProblem(written, at).map((problem) => ({ ...problem, hint }));
}

/** A package that looks like a name has to be one that there is. */
function checkStepPackage(
  { kind, body, bodyPath }: StepView,
  { aliases }: TaskView,
  options: Options,
): Problem[] {
  const name = kind === "extension" && isJsonObject(body) ? body["package"] : undefined;
  if (typeof name !== "string" || name.trim() === "" || aliases.includes(name)) return [];
  const path = [...bodyPath, "package"];
  if (!isWord(name)) return checkPackage(name, path, { ...options, isGiven: false });
  const message = `no import is named ${JSON.stringify(name.slice(0, 80))}`;
  const hint = suggestion(name, aliases, "imports");
  return [{ code: "config/unknown-reference", message, path, at: "value", hint }];
}

/** Steps that could mean an extension of the eval as well as a server. */
function checkAmbiguous({ kind, first, bodyPath }: StepView, { imports, servers }: TaskView): Problem[] {
  if (kind !== "operation" || imports.includes(first) || !servers.known.includes(first)) return [];
  const message = `an extension of the eval and a server are both named ${JSON.stringify(first)}`;
  const hint = "Import the extension under another name, or write the step as mcp or extension.";
  return [{ code: "config/duplicate-name", message, path: bodyPath, at: "key", hint }];
}

/** A package that is a path stays in the task's folder; it has to be there, unless the eval gives another one. */
function checkPackage(
  written: string,
  path: KeyPath,
  { files, isGiven }: { readonly files: TaskFiles; readonly isGiven: boolean },
): Problem[] {
  const parsed = parsePackageRef(written);
  if (!parsed.ok) return isGiven ? [] : packageProblem(written, path);
  if (parsed.ref.kind !== "path") return [];
  const wanted = isGiven ? "inside" : "any";
  return checkFilePath(parsed.ref.path, path, { files: withHome(files), wanted });
}

/** The home folder is outside of a task's; where that is allowed, nothing is known of what is in it. */
function withHome(files: TaskFiles): TaskFiles {
  const look: TaskFiles["look"] = (path) => {
    if (!path.startsWith("~")) return files.look(path);
    return files.look("..") === "outside" ? "outside" : "file";
  };
  return { ...files, look };
}
