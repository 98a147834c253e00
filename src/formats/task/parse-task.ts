import { suggestion } from "../../base/did-you-mean.ts";
import { graderReader } from "../../graders/declared.ts";
import {
  asObject,
  asText,
  formatKeyPath,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../../base/json.ts";
import {
  mostTurns,
  type PortableTask,
  type Requirement,
  simulatedLast,
  type Task,
  userOf,
  type UseLimits,
} from "../../model/task.ts";
import {
  maxProblems,
  type NamePlace,
  placeProblems,
  type Problem,
  problem,
  repeatedNames,
} from "../../base/problem.ts";
import { checkTexts, checkVerify, declaredOutputs, type PromptTurn, taskNotes } from "./check-steps.ts";
import { checkFilePath, checkPath, staticText, type TaskNames } from "./check-texts.ts";
import {
  allActions,
  allSteps,
  phasedSteps,
  type PlacedAction,
  type PlacedStep,
  readTask,
  serverNames,
  type TaskSource,
} from "./read-task.ts";
import { checkSettings, extensionPorts, isWord, randomPorts, usedExtensions } from "./task-extensions.ts";
import { Findings, type ParsedTask, type ParseTaskOptions, type TaskFiles } from "./task-options.ts";
import type { ParsedTaskFile } from "./task-schema.ts";
import { type Expression, isTaskRoot, parseTemplate, taskRoots } from "../../templates/template.ts";
import { saysKind } from "../config/server-tables.ts";
import { packageProblem } from "../../model/extension.ts";
import { parsePackageRef } from "../../model/package-ref.ts";

export type { ParsedTask, ParseTaskOptions, TaskFiles } from "./task-options.ts";

export function refusal(problems: readonly Problem[], { locate }: ParseTaskOptions): ParsedTask {
  return { ok: false, diagnostics: placeProblems(problems.slice(0, maxProblems), locate) };
}

/**
 * Checks the document of a task of `mcp-eval/v1` and makes the task of it. Gives all problems with the schema, or when there are
 * none all others, in the order of the file when `locate` knows lines.
 */
export function parseTask(document: JsonObject, options: ParseTaskOptions): ParsedTask {
  const source = readTask(document, options);
  if (!("file" in source)) return refusal(source, options);
  const { metadata, spec } = source.file;
  const found = new Findings();
  const turns = readPrompt(spec.prompt, options.files, found);
  const checked = checkTask(source, turns, options);
  found.add(checked.problems);
  const { graders: shared = [], graderTypes } = options;
  const readGraders = graderReader(graderTypes, (each) => found.add([each]));
  const graders = readGraders(spec.graders, ["spec", "graders"], shared);
  if (found.problems.length > 0) return refusal(found.problems, options);
  const extensions = phasedSteps(source).flatMap(({ placed: { step, bodyPath }, phase }) => {
    if (step.type !== "extension") return [];
    const { id, extension, operation, args } = step;
    const location = options.locate({ path: bodyPath, at: "key" });
    return [withoutUndefined({ step: id, phase, extension, operation, args, location })];
  });
  const diagnostics = checkSettings(extensions, {
    task: metadata.name,
    joined: source.extensions,
    names: namesOf(source, options),
    outputs: new Map(
      allSteps(source).flatMap((step) =>
        step.ownId === undefined ? [] : [[step.ownId, declaredOutputs(step)] as const],
      ),
    ),
  });
  if (diagnostics.length > 0) return { ok: false, diagnostics: diagnostics.slice(0, maxProblems) };
  const task: Task = withoutUndefined({
    name: metadata.name,
    form: "task" as const,
    description: metadata.description,
    servers: source.names.started,
    turns: turns.map(({ user }) => ({ user: userOf(user) })),
    expectTools: [],
    verify: source.steps.verify.map(({ step }) => step),
    parallel: false,
    location: options.locate({ path: ["metadata", "name"], at: "value" }),
    elicitation: spec.elicitation?.map(withoutUndefined),
    graders: graders.length === 0 ? undefined : graders,
    limits: useLimitsOf(spec.limits),
    portable: portablePart(source, turns, {
      options,
      extensions: usedExtensions(extensions, source.extensions),
    }),
  });
  const { own, variants } = source.servers;
  const notes = taskNotes(source, checked.notes, options.locate);
  return withoutUndefined({ ok: true as const, task, servers: own, variants, notes, extensions });
}

/** Undefined when there are none. */
function useLimitsOf({
  maxCost,
  maxTokens,
  maxToolCalls,
  maxTurns,
}: ParsedTaskFile["spec"]["limits"]): UseLimits | undefined {
  const limits = withoutUndefined({ maxCost, maxTokens, maxToolCalls, maxTurns });
  return Object.keys(limits).length === 0 ? undefined : limits;
}

/** Reads the prompts: a text, a file, or a list of these. No prompt: no turns. */
function readPrompt(
  prompt: ParsedTaskFile["spec"]["prompt"] = [],
  files: TaskFiles,
  found: Findings,
): readonly PromptTurn[] {
  const at = ["spec", "prompt"];
  const parts = Array.isArray(prompt)
    ? prompt.map((part, index) => ({ part, path: [...at, index] }))
    : [{ part: prompt, path: at }];
  return parts.flatMap(({ part, path: own }, index): readonly PromptTurn[] => {
    if (typeof part === "string") return [{ user: part, path: own }];
    if (!("file" in part)) {
      if (index < parts.length - 1) found.refuse(own, `: ${simulatedLast}`);
      return [{ user: part, path: own }];
    }
    const path = [...own, "file"];
    const wrong = checkFilePath(part.file, path, { files, wanted: "file" });
    found.add(wrong);
    if (wrong.length > 0) return [];
    const text = files.read(part.file);
    if (text !== undefined && text.trim() !== "") return [{ user: text.trimEnd(), path }];
    const what = text === undefined ? "cannot be read as text" : "is blank";
    found.refuse(path, `: the file ${JSON.stringify(part.file)} ${what}`);
    return [];
  });
}

function portablePart(
  { document, file: { metadata, spec }, steps, solution }: TaskSource,
  turns: readonly PromptTurn[],
  {
    options,
    extensions,
  }: { readonly options: ParseTaskOptions; readonly extensions: PortableTask["extensions"] | undefined },
): PortableTask {
  const texts = [document, ...turns.map(({ user }) => user as Json)];
  return withoutUndefined({
    format: "mcp-eval/v1" as const,
    file: options.file,
    dir: options.dir,
    env: spec.env,
    setup: steps.setup.map(({ step }) => step),
    cleanup: steps.cleanup.map(({ step }) => step),
    extensions,
    solution: spec.solution === undefined ? undefined : solution.map(({ action }) => action),
    fixtures: spec.fixtures,
    requires: spec.requires.flatMap(requirementOf),
    difficulty: metadata.difficulty,
    tags: metadata.tags,
    labels: metadata.labels,
    timeoutMs: metadata.timeout ?? spec.limits.timeout,
    cleanupTimeoutMs: spec.limits.cleanupTimeout,
    stateProbe: metadata.stateProbe,
    randomPorts: [...new Set([...randomPorts(texts), ...extensionPorts(extensions)])],
    assertions: [],
    inheritEnv: options.inheritEnv,
  });
}

/** The only key of a requirement says its kind; the value of `judge` is `true`. */
function requirementOf(entry: ParsedTaskFile["spec"]["requires"][number]): Requirement[] {
  const { judge, ...named } = entry;
  if (judge !== undefined) return [{ kind: "judge" }];
  return (Object.entries(named) as [keyof typeof named, string][]).map(([kind, name]) => ({ kind, name }));
}

/** Checks everything that must hold between the parts of a task whose file fits the schema. */
function checkTask(
  source: TaskSource,
  turns: readonly PromptTurn[],
  options: ParseTaskOptions,
): Pick<Findings, "problems" | "notes"> {
  const known = { names: namesOf(source, options), files: options.files };
  const texts = checkTexts(source, turns, known);
  const verify = checkVerify(source.steps.verify);
  const found = new Findings();
  checkNames(source, found);
  checkServers(source, options, found);
  checkStepKinds(source, found);
  checkStateProbe(source, found);
  checkExtensions(source, options, found);
  checkPaths(source, options.files, found);
  found.add(texts.problems);
  checkVariants(source, options, found, texts.problems, (names) =>
    checkTexts(source, turns, { ...known, names }),
  );
  checkEnvCycles(source, found);
  checkSolution(source, found);
  checkLimits(source, found);
  found.add(verify.problems);
  return { problems: found.problems, notes: [...texts.notes, ...verify.notes] };
}

/** What templates of a task may refer to. */
function namesOf(source: TaskSource, { variables }: ParseTaskOptions): TaskNames {
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

/** Names that have to be unique. */
function checkNames(source: TaskSource, found: Findings): void {
  const { imports, names } = source;
  const ids = allSteps(source).flatMap(({ ownId, bodyPath }): NamePlace[] =>
    ownId === undefined ? [] : [{ name: ownId, path: [...bodyPath, "id"] }],
  );
  const aliases = imports.map(({ as, path }) => ({ name: as, path: [...path, "as"] }));
  checkUnique([...ids, ...solutionIds(source.solution)], "steps have the id", found);
  checkUnique(aliases, "imports are named", found);
  for (const { name, path } of aliases.filter((alias) => names.known.includes(alias.name))) {
    const message = `an import and a server are both named ${JSON.stringify(name)}`;
    found.add(problem(path, message, { code: "config/duplicate-name", hint: "Rename the import." }));
  }
}

/** Ids of the actions of a solution, those inside others included. */
function solutionIds(solution: readonly PlacedAction[]): NamePlace[] {
  return allActions(solution).flatMap(({ action, path }) =>
    "id" in action && action.id !== undefined ? [{ name: action.id, path: [...path, "id"] }] : [],
  );
}

/** Refuses names that are there twice; `what` goes on after "two". */
function checkUnique(places: readonly NamePlace[], what: string, found: Findings, after = ""): void {
  for (const { name, path, first } of repeatedNames(places)) {
    const both = `${formatKeyPath(first)} and ${formatKeyPath(path)}`;
    const message = `two ${what} ${JSON.stringify(name)}${after}: ${both}`;
    const hint = "Rename one of them.";
    found.add(problem(path, message, { code: "config/duplicate-name", alsoAt: first, hint }));
  }
}

function unknownName(kind: string, { name, path }: NamePlace, known: readonly string[]): Problem {
  return problem(path, `no ${kind} is named ${JSON.stringify(name.slice(0, 80))}`, {
    code: "config/unknown-reference",
    hint: suggestion(name, known, `${kind.replace(" of the eval", "")}s`),
  });
}

/** Checks that servers exist: those that the task changes, answers for, or that its steps name. */
function checkServers(source: TaskSource, { servers: provided }: ParseTaskOptions, found: Findings): void {
  const { overlay, file, names } = source;
  const { table = {}, place = (path: KeyPath) => path } = overlay ?? {};
  const below = table["inherit"] === false ? [] : provided;
  for (const [name, server] of Object.entries(table)) {
    if (typeof server === "boolean" || saysKind(server) || below.includes(name)) continue;
    const unknown = unknownName("server of the eval", { name, path: place([name]) }, below);
    const hint = `${unknown.hint ?? ""} A new one needs command, url or mock.`;
    found.add(server === null ? unknown : { ...unknown, at: "key", hint });
  }
  const answered = (file.spec.elicitation ?? []).map(({ server }, index) => ({
    name: server,
    path: ["spec", "elicitation", index, "server"],
  }));
  const called = allSteps(source).map(({ step, bodyPath }) => ({
    name: step.type === "mcp" && bodyPath.at(-1) === "mcp" ? step.server : undefined,
    path: [...bodyPath, "server"],
  }));
  for (const { name, path } of [...answered, ...called])
    if (name !== undefined && !names.known.includes(name) && staticText(name) !== undefined)
      found.add(unknownName("server", { name, path }, names.known));
}

/** Checks that steps stand in a phase that they may be in, and that the variables of loops hide nothing. */
function checkStepKinds(source: TaskSource, found: Findings): void {
  for (const { placed, phase } of phasedSteps(source)) {
    const { step, kind, path, bodyPath } = placed;
    if (kind.phases?.includes(phase) === false) {
      const allowed = kind.phases.join(", ");
      const message = `${formatKeyPath(path)}: the step ${step.type} can only stand in ${allowed}`;
      found.add(problem(bodyPath, message, { at: "key" }));
    } else if (step.type === "foreach" && isTaskRoot(step.variable))
      found.refuse(
        [...bodyPath, "var"],
        `must not be one of ${taskRoots.join(", ")}: these have a meaning already`,
      );
  }
}

/** Checks that what `metadata.stateProbe` names exists: steps, and their outputs. */
function checkStateProbe(source: TaskSource, found: Findings): void {
  const steps = allSteps(source);
  const ids = steps.flatMap(({ ownId }) => ownId ?? []);
  for (const [index, probe] of source.file.metadata.stateProbe.entries()) {
    const [id = "", ...rest] = probe.split(".");
    const output = rest.join(".");
    const step = steps.findLast(({ ownId }) => ownId === id);
    const declared = step === undefined ? [] : declaredOutputs(step);
    const refuse = (what: string, hint?: string): void =>
      found.refuse(["metadata", "stateProbe", index], `: ${what}`, {
        code: "config/unknown-reference",
        hint,
      });
    if (step === undefined)
      refuse(`no step has the id ${JSON.stringify(id)}`, suggestion(id, [...new Set(ids)], "step ids"));
    else if (declared.length === 0) refuse(`the step ${id} has no outputs`);
    else if (declared !== "any" && output !== "" && !declared.includes(output)) {
      const what = `the step ${id} has no output ${JSON.stringify(output)}`;
      refuse(what, suggestion(output, declared, "outputs"));
    }
  }
}

type ExtensionOptions = Pick<ParseTaskOptions, "extensions" | "files">;

/** Checks where the extensions come from that a task imports, or that its steps name by their packages. */
function checkExtensions(source: TaskSource, options: ExtensionOptions, found: Findings): void {
  for (const entry of source.imports) {
    const { package: written, as, path } = entry;
    const at = [...path, "package"];
    const isGiven = source.extensions.isGiven(entry);
    if (!isWord(written)) found.add(packageProblems(written, at, { ...options, isGiven }));
    // Where the eval is not known, it may have an extension of that name.
    else if (!isGiven && options.extensions !== undefined) {
      const hint = `Write mcpvals:NAME, github.com/ORG/REPO@VERSION, npm:NAME@VERSION or a path such as ./NAME, or declare ${as} in the extensions of the eval.`;
      found.add(packageProblem(written, at).map((each) => ({ ...each, hint })));
    }
  }
  for (const placed of allSteps(source)) checkStepExtension(placed, source, { options, found });
}

/** A step's package must exist; the alias of a dotted step must not mean a server as well. */
function checkStepExtension(
  { step, bodyPath }: PlacedStep,
  { imports, names }: TaskSource,
  { options, found }: { readonly options: ExtensionOptions; readonly found: Findings },
): void {
  if (step.type !== "extension") return;
  const { extension: name } = step;
  const isImported = imports.some(({ as }) => as === name);
  if (bodyPath.at(-1) !== "extension") {
    if (isImported || !names.known.includes(name)) return;
    const message = `an extension of the eval and a server are both named ${JSON.stringify(name)}`;
    const hint = "Import the extension under another name, or write the step as mcp or extension.";
    found.add(problem(bodyPath, message, { code: "config/duplicate-name", at: "key", hint }));
    return;
  }
  const declared = Object.keys(options.extensions?.declared ?? {});
  if (isImported || declared.includes(name)) return;
  const path = [...bodyPath, "package"];
  if (!isWord(name)) found.add(packageProblems(name, path, { ...options, isGiven: false }));
  else found.add(unknownName("import", { name, path }, [...imports.map(({ as }) => as), ...declared]));
}

/** A package that is a path stays in the task's folder; it has to exist, unless the eval gives another one. */
function packageProblems(
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

/** Checks the paths of a task outside of its steps: working folders of servers, and fixtures. */
function checkPaths({ file: { spec }, document }: TaskSource, files: TaskFiles, found: Findings): void {
  for (const [name, server] of Object.entries(asObject(asObject(document["spec"])["servers"]))) {
    const cwd = asText(asObject(server)["cwd"]);
    const path = ["spec", "servers", name, "cwd"];
    if (cwd !== undefined) checkPath({ text: cwd, path }, { files, wanted: "inside" }, { found });
  }
  checkFixtures(spec.fixtures, ["spec", "fixtures"], files, found);
}

/** Checks that fixtures are there, inside the folder of the file that names them, and not two of one name. */
export function checkFixtures(
  fixtures: readonly string[],
  at: KeyPath,
  files: TaskFiles,
  found: Findings = new Findings(),
): readonly Problem[] {
  const named = fixtures.flatMap((text, index): NamePlace[] => {
    const path = [...at, index];
    // A fixture is copied under its last name.
    const name = text.split(/[/\\]/).findLast((part) => part !== "");
    if (name === undefined || name === "." || name === "..") {
      found.refuse(path, "must name a file or folder inside the task's folder");
      return [];
    }
    const wrong = checkFilePath(text, path, { files, wanted: "any" });
    found.add(wrong);
    const special = wrong.length > 0 ? undefined : files.special?.(text);
    if (special !== undefined)
      found.refuse(path, `: ${special} is a pipe, a socket or a device, which cannot be copied`);
    return [{ name, path }];
  });
  checkUnique(named, "fixtures would be", found, " in the workspace");
  return found.problems;
}

const addresses = "servers";

/** Refuses values of `spec.env` that use each other in a cycle, each cycle once. */
function checkEnvCycles({ file, document }: TaskSource, found: Findings): void {
  const servers = Object.values(asObject(asObject(document["spec"])["servers"]));
  const env = Object.entries(file.spec.env).map(([name, value]) => [`env.${name}`, value] as const);
  const nodes = new Set([...env.map(([node]) => node), addresses]);
  /** What values are made of: `env.NAME`, or `servers` for the addresses of all servers. */
  const used = (self: string, value: unknown): string[] =>
    usedBy(value).filter((node) => nodes.has(node) && node !== self);
  const uses = new Map([
    ...env.map(([node, value]) => [node, used(node, value)] as const),
    [addresses, servers.flatMap((server) => used(addresses, asObject(server)["url"]))] as const,
  ]);
  const done = new Set<string>();
  for (const start of uses.keys()) {
    const cycle = findCycle(start, uses, done);
    if (cycle === undefined) continue;
    const name = cycle.find((node) => node !== addresses)?.slice("env.".length) ?? "";
    const steps = cycle.map((node) => (node === addresses ? "the servers' addresses" : node));
    const shown = steps.length <= 10 ? steps : [...steps.slice(0, 8), "…", ...steps.slice(-1)];
    found.add(
      problem(["spec", "env", name], `spec.env.${name} depends on itself: ${shown.join(" → ")}`, {
        hint: "Let one of them depend on none of the others; a value may use the shell's value of its own name.",
      }),
    );
  }
}

function usedBy(value: unknown): string[] {
  if (typeof value !== "string") return [];
  return parseTemplate(value, (root) => root === "env" || root === addresses)
    .filter((part): part is Expression => typeof part === "object")
    .flatMap(({ root, names }) => (root === "env" ? names.slice(0, 1).map((name) => `env.${name}`) : [root]));
}

/** A cycle that can be reached from a value and was not found before; each value is visited once in all searches. */
function findCycle(
  start: string,
  uses: ReadonlyMap<string, readonly string[]>,
  done: Set<string>,
): readonly string[] | undefined {
  // Without recursion: the values of a file may form a chain of any length.
  const open = done.has(start) ? [] : [{ node: start, next: 0 }];
  const within = new Map([[start, 0]]);
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const used = uses.get(top.node)?.[top.next];
    top.next += 1;
    if (used === undefined) {
      done.add(top.node);
      within.delete(top.node);
      open.pop();
    } else if (within.has(used)) {
      for (const { node } of open) done.add(node);
      return [...open.slice(within.get(used)).map(({ node }) => node), used];
    } else if (!done.has(used)) {
      within.set(used, open.length);
      open.push({ node: used, next: 0 });
    }
  }
  return undefined;
}

/** Checks that a solution has no more turns than the prompt. */
function checkSolution({ file: { spec }, solution }: TaskSource, found: Findings): void {
  const path = ["spec", "solution"];
  if (spec.solution === undefined) return;
  if (spec.prompt === undefined)
    return found.refuse(path, "is never played: without spec.prompt no agent takes part", { at: "key" });
  // A `foreach` that says something may say it any number of times.
  if (allActions(solution.flatMap(({ inner }) => inner)).some(isSay)) return;
  const prompts = [spec.prompt].flat();
  const asked = prompts.reduce(
    (sum, user) => sum + (typeof user === "string" || "file" in user ? 1 : mostTurns(userOf(user))),
    0,
  );
  const last = solution.at(-1);
  const played = solution.filter(isSay).length + (last !== undefined && isSay(last) ? 0 : 1);
  if (played > asked)
    found.refuse(path, `has ${played} turns, the prompt has ${asked}: each \`say\` ends a turn`, {
      hint: "Leave out a `say`, or what comes after the last one.",
    });
}

function isSay({ action }: PlacedAction): boolean {
  return action.kind === "say";
}

/** The time limit of a task may stand in two places, but not in both. */
function checkLimits({ file: { spec, metadata } }: TaskSource, found: Findings): void {
  if (spec.limits.timeout === undefined || metadata.timeout === undefined) return;
  const message = "the task's time limit is given twice: metadata.timeout and spec.limits.timeout";
  found.add(
    problem(["spec", "limits", "timeout"], message, {
      code: "config/duplicate-name",
      at: "key",
      alsoAt: ["metadata", "timeout"],
      hint: "Remove one of them.",
    }),
  );
}

/**
 * Checks each variant of the eval that lacks servers of the task, except those that it `requires`: there it is skipped.
 * `always` is wrong with the task's texts in any case; `check` checks them with other names.
 */
function checkVariants(
  source: TaskSource,
  options: ParseTaskOptions,
  found: Findings,
  always: readonly Problem[],
  check: (names: TaskNames) => Findings,
): void {
  const { names, overlay, document } = source;
  const spec = asObject(document["spec"]) as JsonObject;
  for (const { name, written } of options.provided?.variants ?? []) {
    const inherited = Object.keys(written);
    // An entry that changes a server starts none where that server is lacking.
    const there = serverNames(spec, overlay?.table, inherited).started.filter(
      (server) => inherited.includes(server) || saysKind(overlay?.table[server] ?? null),
    );
    const lost = names.started.filter(
      (server) => !there.includes(server) && !names.required.includes(server),
    );
    if (lost.length === 0) continue;
    const variant = `the variant ${JSON.stringify(name)}`;
    for (const { step, bodyPath } of allSteps(source)) {
      // A step that names its server can only break where that is lacking.
      if (step.type !== "mcp" || step.server === undefined || !lost.includes(step.server)) continue;
      const isLong = bodyPath.at(-1) === "mcp";
      found.add(
        problem(
          isLong ? [...bodyPath, "server"] : bodyPath,
          `step ${step.id} of the task ${JSON.stringify(source.file.metadata.name)} calls the server ${JSON.stringify(step.server)}, which ${variant} lacks`,
          { code: "config/unknown-reference", at: isLong ? "value" : "key", hint: variantHint },
        ),
      );
    }
    const known = namesOf(source, options);
    const before = new Set(always.map(keyOf));
    const urls = known.urls.filter((url) => !lost.includes(url));
    for (const { path, message, code, at, text } of check({ ...known, urls }).problems)
      if (!before.has(keyOf({ path, message })))
        found.add(problem(path, `${message} in ${variant}`, { code, at, text, hint: variantHint }));
  }
}

const variantHint =
  "Keep the server in that variant, or let the task require it (requires: [{ server: NAME }]), so that it is skipped there.";

function keyOf({ message, path }: Pick<Problem, "message" | "path">): string {
  return JSON.stringify([message, path]);
}

/** Whether a task from a file of its own has nothing that could fail: no verify step, no required grader, and no assertion that says anything. */
export function taskChecksNothing(task: Task): boolean {
  if (task.form !== "task" || task.verify.length > 0) return false;
  if (task.graders?.some(({ required }) => required) === true) return false;
  return (task.portable?.assertions ?? []).length === 0;
}
