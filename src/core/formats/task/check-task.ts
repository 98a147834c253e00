import { type Expression, parseTemplate } from "../../templates/parse-template.ts";
import { taskRoots } from "../../templates/scope.ts";
import { saysKind } from "../config/server-tables.ts";
import { suggestion } from "../did-you-mean.ts";
import { packageProblem } from "../extension/extension-table-schema.ts";
import { parsePackageRef } from "../extension/package-ref.ts";
import { asObject, formatKeyPath, type JsonObject, type KeyPath, withoutUndefined } from "../json.ts";
import type { Problem } from "../problem.ts";
import { checkFilePath, checkTaskPaths } from "./check-paths.ts";
import { checkTemplates, declaredOutputs, type PromptTurn } from "./check-templates.ts";
import { staticText, type TaskNames } from "./check-text.ts";
import { checkVerify } from "./check-verify.ts";
import {
  allActions,
  allSteps,
  phasedSteps,
  type PlacedAction,
  type PlacedStep,
  serverNames,
  type TaskSource,
} from "./read-task.ts";
import { isGivenByEval, isWord, type TaskImport } from "./task-extensions.ts";
import type { Findings, ParseTaskOptions, TaskFiles } from "./task-options.ts";

/** Checks everything that must hold between the parts of a task whose file fits the schema. */
export function checkTask(
  source: TaskSource,
  turns: readonly PromptTurn[],
  options: ParseTaskOptions,
): Findings {
  const names = namesOf(source, options);
  const { files } = options;
  const templates = checkTemplates(source, turns, { names, files });
  const verify = checkVerify(source.steps.verify, files);
  const problems = [
    ...checkNames(source),
    ...checkServers(source, options),
    ...checkStepKinds(source),
    ...checkStateProbe(source),
    ...checkExtensions(source, options),
    ...checkTaskPaths(source, files),
    ...templates.problems,
    ...lackingVariants(source, options).flatMap((variant) => [
      ...callsInVariant(source, variant),
      ...templatesInVariant(source, variant, { names, files, turns, always: templates.problems }),
    ]),
    ...checkEnvCycles(source),
    ...checkSolution(source),
    ...checkLimits(source),
    ...verify.problems,
  ];
  return { problems, notes: [...templates.notes, ...verify.notes] };
}

/** What templates of a task may refer to. */
export function namesOf(source: TaskSource, { variables }: ParseTaskOptions): TaskNames {
  const { overlay, file, names, solution } = source;
  const own = Object.entries(overlay?.table ?? {});
  const local = own.filter(([, server]) => asObject(server)["command"] !== undefined).map(([name]) => name);
  const required = file.spec.requires.flatMap(({ env }) => env ?? []);
  return {
    env: new Set([...Object.keys(file.spec.env), ...required]),
    variables,
    urls: names.known.filter((name) => !local.includes(name)),
    local,
    ids: allSteps(source).flatMap(({ ownId }) => ownId ?? []),
    solutionIds: solutionIds(solution).map(({ name }) => name),
  };
}

/** A name and where it stands. */
interface NamePlace {
  readonly name: string;
  readonly path: KeyPath;
}

/** Names that have to be unique. */
function checkNames(source: TaskSource): Problem[] {
  const { imports, names } = source;
  const ids = allSteps(source).flatMap(({ ownId, bodyPath }): NamePlace[] =>
    ownId === undefined ? [] : [{ name: ownId, path: [...bodyPath, "id"] }],
  );
  const aliases = imports.map(({ as, path }) => ({ name: as, path: [...path, "as"] }));
  const taken = aliases.filter(({ name }) => names.known.includes(name));
  return [
    ...duplicates([...ids, ...solutionIds(source.solution)], "steps have the id"),
    ...duplicates(aliases, "imports are named"),
    ...taken.map(({ name, path }): Problem => {
      const message = `an import and a server are both named ${JSON.stringify(name)}`;
      return { code: "config/duplicate-name", message, path, at: "value", hint: "Rename the import." };
    }),
  ];
}

/** Ids of the actions of a solution, those inside others included. */
function solutionIds(solution: readonly PlacedAction[]): NamePlace[] {
  return allActions(solution).flatMap(({ action, path }) =>
    "id" in action && action.id !== undefined ? [{ name: action.id, path: [...path, "id"] }] : [],
  );
}

function duplicates(places: readonly NamePlace[], what: string): Problem[] {
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

/** Checks that servers exist: those that the task changes, answers for, or that its steps name. */
function checkServers(source: TaskSource, { servers: provided }: ParseTaskOptions): Problem[] {
  const { overlay, file, names } = source;
  const { table = {}, place = (path: KeyPath) => path } = overlay ?? {};
  const below = table["inherit"] === false ? [] : provided;
  const inherited = Object.entries(table).flatMap(([name, server]): Problem[] => {
    if (typeof server === "boolean" || saysKind(server) || below.includes(name)) return [];
    const problem = unknownName("server of the eval", { name, path: place([name]) }, below);
    if (server === null) return [problem];
    return [{ ...problem, at: "key", hint: `${problem.hint ?? ""} A new one needs command, url or mock.` }];
  });
  const answered = (file.spec.elicitation ?? []).map(({ server }, index) => ({
    name: server,
    path: ["spec", "elicitation", index, "server"],
  }));
  const called = allSteps(source).map(({ step, bodyPath }) => ({
    name: step.type === "mcp" && bodyPath.at(-1) === "mcp" ? step.server : undefined,
    path: [...bodyPath, "server"],
  }));
  const named = [...answered, ...called].flatMap(({ name, path }) => {
    if (name === undefined || names.known.includes(name)) return [];
    return staticText(name, new Map()) === undefined
      ? []
      : [unknownName("server", { name, path }, names.known)];
  });
  return [...inherited, ...named];
}

function unknownName(kind: string, { name, path }: NamePlace, known: readonly string[]): Problem {
  const message = `no ${kind} is named ${JSON.stringify(name.slice(0, 80))}`;
  const hint = suggestion(name, known, `${kind.replace(" of the eval", "")}s`);
  return { code: "config/unknown-reference", message, path, at: "value", hint };
}

/** Checks that steps stand in a phase that they may be in, and that the variables of loops hide nothing. */
function checkStepKinds(source: TaskSource): Problem[] {
  return phasedSteps(source).flatMap(({ placed: { step, kind, path, bodyPath }, phase }): Problem[] => {
    if (kind.phases?.includes(phase) === false) {
      const message = `${formatKeyPath(path)}: the step ${step.type} can only stand in ${kind.phases.join(", ")}`;
      return [{ code: "config/invalid-value", message, path: bodyPath, at: "key" }];
    }
    if (step.type !== "foreach" || !taskRoots.some((root) => root === step.variable)) return [];
    const at = [...bodyPath, "var"];
    const message = `${formatKeyPath(at)} must not be one of ${taskRoots.join(", ")}: these have a meaning already`;
    return [{ code: "config/invalid-value", message, path: at, at: "value" }];
  });
}

/** Checks that what `metadata.stateProbe` names exists: steps, and outputs of theirs. */
function checkStateProbe(source: TaskSource): Problem[] {
  const byId = new Map(
    allSteps(source).flatMap((step): [string, PlacedStep][] =>
      step.ownId === undefined ? [] : [[step.ownId, step]],
    ),
  );
  return source.file.metadata.stateProbe.flatMap((probe, index) => {
    const [id = "", ...rest] = probe.split(".");
    const output = rest.join(".");
    const step = byId.get(id);
    const declared = step === undefined ? [] : declaredOutputs(step);
    const path = ["metadata", "stateProbe", index];
    const unknown = (what: string, hint?: string): Problem[] => [
      withoutUndefined({
        code: "config/unknown-reference" as const,
        message: `${formatKeyPath(path)}: ${what}`,
        path,
        at: "value" as const,
        hint,
      }),
    ];
    if (step === undefined)
      return unknown(
        `no step has the id ${JSON.stringify(id)}`,
        suggestion(id, [...byId.keys()], "step ids"),
      );
    if (declared === "any") return [];
    if (declared.length === 0) return unknown(`the step ${id} has no outputs`);
    if (output === "" || declared.includes(output)) return [];
    const what = `the step ${id} has no output ${JSON.stringify(output)}`;
    return unknown(what, suggestion(output, declared, "outputs"));
  });
}

type ExtensionOptions = Pick<ParseTaskOptions, "extensions" | "files">;

/** Checks where the extensions come from that a task imports, or that its steps name by their packages. */
function checkExtensions(source: TaskSource, options: ExtensionOptions): Problem[] {
  return [
    ...source.imports.flatMap((each) => checkImport(each, options)),
    ...allSteps(source).flatMap((placed) => checkStepExtension(placed, source, options)),
  ];
}

function checkImport(entry: TaskImport, options: ExtensionOptions): Problem[] {
  const { package: written, as, path } = entry;
  const at = [...path, "package"];
  const isGiven = isGivenByEval(entry, options);
  if (!isWord(written)) return checkPackage(written, at, { ...options, isGiven });
  // Where the eval is not known, it may have an extension of that name.
  if (isGiven || options.extensions === undefined) return [];
  const hint = `Write mcpvals:NAME, github.com/ORG/REPO@VERSION, npm:NAME@VERSION or a path such as ./NAME, or declare ${as} in the extensions of the eval.`;
  return packageProblem(written, at).map((problem) => ({ ...problem, hint }));
}

/** A step's package must exist; the alias of a dotted step must not mean a server as well. */
function checkStepExtension(
  { step, bodyPath }: PlacedStep,
  { imports, names }: TaskSource,
  options: ExtensionOptions,
): Problem[] {
  if (step.type !== "extension") return [];
  const { extension: name } = step;
  const isImported = imports.some(({ as }) => as === name);
  if (bodyPath.at(-1) !== "extension") {
    if (isImported || !names.known.includes(name)) return [];
    const message = `an extension of the eval and a server are both named ${JSON.stringify(name)}`;
    const hint = "Import the extension under another name, or write the step as mcp or extension.";
    return [{ code: "config/duplicate-name", message, path: bodyPath, at: "key", hint }];
  }
  const declared = Object.keys(options.extensions?.declared ?? {});
  if (isImported || declared.includes(name)) return [];
  const path = [...bodyPath, "package"];
  if (!isWord(name)) return checkPackage(name, path, { ...options, isGiven: false });
  return [unknownName("import", { name, path }, [...imports.map(({ as }) => as), ...declared])];
}

/** A package that is a path stays in the task's folder; it has to exist, unless the eval gives another one. */
function checkPackage(
  written: string,
  path: KeyPath,
  { files, isGiven }: { readonly files: TaskFiles; readonly isGiven: boolean },
): Problem[] {
  const parsed = parsePackageRef(written);
  if (!parsed.ok) return isGiven ? [] : packageProblem(written, path);
  if (parsed.ref.kind !== "path") return [];
  // The home folder is outside of a task's; where that is allowed, its content is not known.
  const look: TaskFiles["look"] = (file) => {
    if (!file.startsWith("~")) return files.look(file);
    return files.look("..") === "outside" ? "outside" : "file";
  };
  return checkFilePath(parsed.ref.path, path, {
    files: { ...files, look },
    wanted: isGiven ? "inside" : "any",
  });
}

/** What values are made of: `env.NAME`, or `servers` for the addresses of all servers. */
type Uses = ReadonlyMap<string, readonly string[]>;

const addresses = "servers";

/** Values of `spec.env` that use each other in a cycle, each cycle once. */
function checkEnvCycles({ file, document }: TaskSource): Problem[] {
  const servers = asObject(asObject(document["spec"])["servers"]);
  const uses = usesIn(file.spec.env, servers);
  const done = new Set<string>();
  return [...uses.keys()].flatMap((start) => {
    const cycle = findCycle(start, uses, done);
    if (cycle === undefined) return [];
    const name = cycle.find((node) => node !== addresses)?.slice("env.".length) ?? "";
    const steps = cycle.map((node) => (node === addresses ? "the servers' addresses" : node));
    const shown = steps.length <= 10 ? steps : [...steps.slice(0, 8), "…", ...steps.slice(-1)];
    return [
      {
        code: "config/invalid-value",
        message: `spec.env.${name} depends on itself: ${shown.join(" → ")}`,
        path: ["spec", "env", name],
        at: "value",
        hint: "Let one of them depend on none of the others; a value may use the shell's value of its own name.",
      },
    ];
  });
}

function usesIn(env: Readonly<Record<string, string>>, servers: Readonly<Record<string, unknown>>): Uses {
  const nodes = new Set([...Object.keys(env).map((name) => `env.${name}`), addresses]);
  const used = (self: string, value: unknown): string[] =>
    usedBy(value).filter((node) => nodes.has(node) && node !== self);
  const values = Object.entries(env).map(([name, value]): [string, string[]] => {
    const self = `env.${name}`;
    return [self, used(self, value)];
  });
  const urls = Object.values(servers).flatMap((server) => used(addresses, asObject(server)["url"]));
  return new Map([...values, [addresses, urls]]);
}

function usedBy(value: unknown): string[] {
  if (typeof value !== "string") return [];
  return parseTemplate(value, (root) => root === "env" || root === addresses)
    .filter((part): part is Expression => typeof part === "object")
    .flatMap(({ root, names }) => (root === "env" ? names.slice(0, 1).map((name) => `env.${name}`) : [root]));
}

/** A cycle that can be reached from a value and was not found before; each value is visited once in all searches. */
function findCycle(start: string, uses: Uses, done: Set<string>): readonly string[] | undefined {
  if (done.has(start)) return undefined;
  // Without recursion: the values of a file may form a chain of any length.
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

/** Checks that a solution has no more turns than the prompt. */
function checkSolution({ file: { spec }, solution }: TaskSource): Problem[] {
  if (spec.solution === undefined) return [];
  const path = ["spec", "solution"];
  if (spec.prompt === undefined) {
    const message = "spec.solution is never played: without spec.prompt no agent takes part";
    return [{ code: "config/invalid-value", message, path, at: "key" }];
  }
  // A `foreach` that says something may say it any number of times.
  if (allActions(solution.flatMap(({ inner }) => inner)).some(({ action }) => action.kind === "say"))
    return [];
  const asked = Array.isArray(spec.prompt) ? spec.prompt.length : 1;
  const ended = solution.filter(({ action }) => action.kind === "say").length;
  const played = solution.at(-1)?.action.kind === "say" ? ended : ended + 1;
  if (played <= asked) return [];
  const message = `spec.solution has ${played} turns, the prompt has ${asked}: each \`say\` ends a turn`;
  const hint = "Leave out a `say`, or what comes after the last one.";
  return [{ code: "config/invalid-value", message, path, at: "value", hint }];
}

/** The time limit of a task may stand in two places, but not in both. */
function checkLimits({ file: { spec, metadata } }: TaskSource): Problem[] {
  if (spec.limits.timeout === undefined || metadata.timeout === undefined) return [];
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

/** A variant of the eval that lacks servers that a task has without it. */
interface LackingVariant {
  readonly name: string;
  readonly lost: readonly string[];
}

/** The variants that lack servers of the task, but for servers that it `requires`: there it is skipped. */
function lackingVariants(
  { names, overlay, document }: TaskSource,
  { provided }: ParseTaskOptions,
): readonly LackingVariant[] {
  const spec = asObject(document["spec"]) as JsonObject;
  return (provided?.variants ?? []).flatMap(({ name, written }) => {
    const inherited = Object.keys(written);
    // An entry that changes a server starts none where that server is lacking.
    const there = serverNames(spec, overlay?.table, inherited).started.filter(
      (server) => inherited.includes(server) || saysKind(overlay?.table[server] ?? null),
    );
    const lost = names.started.filter(
      (server) => !there.includes(server) && !names.required.includes(server),
    );
    return lost.length === 0 ? [] : [{ name, lost }];
  });
}

/** A step that names its server can only break in a variant that lacks the server. */
function callsInVariant(source: TaskSource, { name: variant, lost }: LackingVariant): Problem[] {
  return allSteps(source).flatMap(({ step, bodyPath }): Problem[] => {
    if (step.type !== "mcp" || step.server === undefined || !lost.includes(step.server)) return [];
    const task = JSON.stringify(source.file.metadata.name);
    const lacking = `the server ${JSON.stringify(step.server)}, which the variant ${JSON.stringify(variant)} lacks`;
    const message = `step ${step.id} of the task ${task} calls ${lacking}`;
    const isLong = bodyPath.at(-1) === "mcp";
    const place = isLong
      ? ({ path: [...bodyPath, "server"], at: "value" } as const)
      : ({ path: bodyPath, at: "key" } as const);
    return [{ code: "config/unknown-reference", message, ...place, hint: inVariantHint }];
  });
}

const inVariantHint =
  "Keep the server in that variant, or let the task require it (requires: [{ server: NAME }]), so that it is skipped there.";

interface VariantContext {
  readonly names: TaskNames;
  readonly files: TaskFiles;
  readonly turns: readonly PromptTurn[];
  /** Problems that the task has in any case. */
  readonly always: readonly Problem[];
}

function templatesInVariant(
  source: TaskSource,
  { name, lost }: LackingVariant,
  { names, files, turns, always }: VariantContext,
): Problem[] {
  const there = { ...names, urls: names.urls.filter((server) => !lost.includes(server)) };
  const known = new Set(always.map(keyOf));
  return checkTemplates(source, turns, { names: there, files })
    .problems.filter((problem) => !known.has(keyOf(problem)))
    .map(({ code, message, path, at, text }) =>
      withoutUndefined({
        code,
        message: `${message} in the variant ${JSON.stringify(name)}`,
        path,
        at,
        text,
        hint: inVariantHint,
      }),
    );
}

function keyOf({ message, path }: Problem): string {
  return JSON.stringify([message, path]);
}
