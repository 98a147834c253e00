import { countOf } from "../../base/visible-text.ts";
import { countFindings } from "../../model/alike-findings.ts";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import type { Command } from "commander";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { asList, asObject, type JsonObject, mapValues } from "../../base/json.ts";
import { findingsOf } from "../../model/finding.ts";
import {
  starterDocument,
  starterTask,
  starterText,
  type StarterTest,
  testsOfCalls,
  type UntestedTool,
  writtenServer,
} from "../../check/starter-config.ts";
import { readSurface } from "../../check/check-view.ts";
import { buildTrajectory, type Trajectory } from "../../trace/trajectory.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import { environment } from "../../formats/environment.ts";
import { load } from "../../formats/load.ts";
import { configExtensions } from "../../formats/sources.ts";
import { describeTarget, loadTarget, type Target } from "../../formats/target.ts";
import { checkServers, exampleArguments } from "../../run/check-servers.ts";
import { run } from "../../run/run.ts";
import { defaultRunsFolder, readRun } from "../../store/run-folder.ts";
import { addTarget, type SetExitCode, type TargetFlags, targetOf } from "../flags.ts";
import {
  askPerson,
  abortOnInterrupt,
  askAtTerminal,
  workingFolder,
  writeError,
  writeNotes,
  writeOut,
  hideSecrets,
} from "../terminal.ts";
import { showWaiting } from "../waiting.ts";

interface InitFlags extends TargetFlags {
  readonly task?: boolean;
  readonly yes?: boolean;
}

const configName = "mcp-eval.config.yaml";
const taskName = "task.yaml";

/** `mcpvals init`: writes a first config, with tests made of what the servers answer, or a first task. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addTarget(command)
    .option("--task", `write a portable task, ${taskName}, in place of a config`)
    .option("-y, --yes", "start the servers without asking")
    .action(async (_: unknown, flags: InitFlags) => setExitCode(await execute(targetOf(command), flags)));
}

/** Returns the exit code. Throws McpvalsError for a config that exists, and for a server that cannot be started or reached. */
async function execute(given: Target, { yes = false, task = false }: InitFlags): Promise<number> {
  const cwd = workingFolder();
  refuseExisting(cwd, task);
  const began = Date.now();
  using interrupt = abortOnInterrupt({});
  const { signal } = interrupt;
  const ask = askAtTerminal();
  const target = await findTarget(given, { cwd, signal });
  const described = await describeTarget(target, { cwd, signal });
  const names = Object.keys(described).join(", ");
  if (!yes && ask !== undefined && !(await agrees(`Start ${names} and call the tools that only read?`)))
    return 0;
  /** Those that the config needs and that are not set. */
  const variables = new Set<string>();
  const loaded = await loadTarget(target, {
    cwd,
    signal,
    ask:
      ask &&
      ((input) => {
        variables.add(input.variable);
        return ask(input);
      }),
  });
  hideSecrets(loaded.secrets);
  writeNotes(loaded);
  using checking = showWaiting(`checking ${names}`);
  const { result, folder = "" } = await checkServers(loaded, { calls: "safe", cwd, signal });
  checking[Symbol.dispose]();
  signal.throwIfAborted();
  const { tests, tools } = await readCheckRun(
    resolve(cwd, defaultRunsFolder),
    folder,
    localTexts(cwd, began),
  );
  const servers = mapValues(described, (server) =>
    withRelativeFolder(writtenServer(server, { secrets: loaded.secrets, variables }), cwd),
  );
  using trying = showWaiting(`trying ${countOf(tests.length, "test")}`);
  const kept = await repeatable(tests, loaded, { cwd, signal });
  trying[Symbol.dispose]();
  signal.throwIfAborted();
  if (task) {
    write(join(cwd, taskName), starterTask({ schema: schemaFor(cwd, "task"), servers, tests: kept }));
    const isKnown = kept.some(({ expectedResult }) => expectedResult !== undefined);
    writeOut(
      [
        `Wrote ${taskName}${isKnown ? "" : ", to be filled in: no tool gave an answer to ask for"}.`,
        ...variablesLine(variables),
        "",
        `Next: npx mcpvals validate ${taskName} --run`,
      ].join("\n"),
    );
    return 0;
  }
  const refused = refusedCalls(tools, kept);
  const untested = await untestedTools(tools, tests, kept);
  write(
    join(cwd, configName),
    starterText({ schema: schemaFor(cwd, "config"), servers, tests: [...kept, ...refused], untested }),
  );
  const findings = findingsOf(result.trials);
  const check = `npx mcpvals check`;
  const parts: string[] = [];
  if (kept.length > 0) parts.push(`${countOf(kept.length, "tool test")} that passed just now`);
  if (refused.length > 0)
    parts.push(`${countOf(refused.length, "call")} that a server has to refuse, not tried yet`);
  const written = parts.length === 0 ? "no tool test, since no tool could be tried" : parts.join(", and ");
  const lines = [`Wrote ${configName}: ${written}.`];
  if (untested.length > 0)
    lines.push(
      `Tools that were not tried, or failed, in the file as comments: ${untested.length}. Remove the # of those that may be called.`,
    );
  if (findings.length > 0) lines.push(`The check found ${countFindings(findings)}: ${check} shows them.`);
  const next = `Next: ${parts.length === 0 ? check : "npx mcpvals run"}`;
  writeOut([...lines, ...variablesLine(variables), "", next].join("\n"));
  return 0;
}

function variablesLine(variables: ReadonlySet<string>): readonly string[] {
  return variables.size === 0 ? [] : [`Set these variables first: ${[...variables].join(", ")}`];
}

function refuseExisting(cwd: string, task: boolean): void {
  const names = task ? [taskName] : configExtensions.map((extension) => `mcp-eval.config.${extension}`);
  const existing = names.find((name) => existsSync(join(cwd, name)));
  if (existing === undefined) return;
  throw new McpvalsError("usage/invalid-option", `${existing} exists, and init overwrites nothing`, {
    hint: task ? `Run it: npx mcpvals run ${taskName}` : "Run it: npx mcpvals run",
  });
}

/** What was named, or the client's file that is found upwards, or else the program of the package in this folder. */
async function findTarget(
  target: Target,
  options: { readonly cwd: string; readonly signal: AbortSignal },
): Promise<Target> {
  if (target.source !== undefined || target.command !== undefined) return target;
  try {
    await describeTarget(target, options);
    return target;
  } catch (error) {
    const program = programOfPackage(options.cwd);
    if (program === undefined || !(error instanceof McpvalsError) || error.code !== "config/not-found")
      throw error;
    writeError(`note: the server is that of package.json: node ${program}`);
    return { ...target, command: ["node", program] };
  }
}

/** The file that a package runs as a command, or else is imported by; undefined when there is none. */
function programOfPackage(cwd: string): string | undefined {
  try {
    const { bin, main } = asObject(JSON.parse(readFileSync(join(cwd, "package.json"), "utf8")));
    const programs = [...(typeof bin === "string" ? [bin] : Object.values(asObject(bin))), main];
    return programs.find((path): path is string => typeof path === "string" && existsSync(join(cwd, path)));
  } catch {
    return undefined;
  }
}

/** What is different on another machine, or at another time. The servers were asked since `began`. */
function localTexts(cwd: string, began: number): readonly string[] {
  const { HOME = "", PATH = "" } = environment();
  const texts = [cwd, HOME, PATH, tmpdir(), hostname()];
  for (let time = began; time < Date.now() + minute; time += minute) texts.push(...timeTexts(new Date(time)));
  return [...new Set(texts)].filter((text) => text.length >= minLocalLength);
}

const minute = 60_000;

/** Usual forms of a day, and of its hour and minute, here and in UTC. */
function timeTexts(time: Date): readonly string[] {
  const written = ["UTC", undefined].flatMap((timeZone) => {
    const as = (locale: string, options: Intl.DateTimeFormatOptions): string =>
      time.toLocaleString(locale, { ...options, timeZone });
    const day = { year: "numeric", month: "numeric", day: "numeric" } as const;
    const months = (["long", "short"] as const).map((month) => ({ month, day: "numeric" }) as const);
    return [
      ...["sv-SE", "en-US", "en-GB", "de-DE"].map((locale) => as(locale, day)),
      ...["en-US", "en-GB"].flatMap((locale) => months.map((month) => as(locale, month))),
      ...["en-US", "en-GB"].map((locale) => as(locale, { timeStyle: "short" }).replace(/\s.*/, "")),
    ];
  });
  return [...written, time.toDateString().slice(4, 10), time.toUTCString().slice(5, 11)];
}

/** Shorter texts are in others by chance. */
const minLocalLength = 4;

/** The path to a JSON Schema in the package that is installed here or above; undefined when none is, as with npx. */
function schemaFor(cwd: string, kind: "config" | "task"): string | undefined {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const schema = join(folder, `node_modules/mcpvals/schemas/${kind}.schema.json`);
    if (existsSync(schema)) return relative(cwd, schema).split(sep).join("/");
    if (dirname(folder) === folder) return undefined;
  }
}

async function agrees(question: string): Promise<boolean> {
  return !/^\s*n/i.test(await askPerson(`${question} [Y/n] `));
}

/** A folder below that of the config is written relative to it; the folder itself is the default. */
function withRelativeFolder({ cwd: folder, ...server }: JsonObject, cwd: string): JsonObject {
  if (typeof folder !== "string" || resolve(cwd, folder) === cwd) return server;
  return { ...server, cwd: relative(cwd, resolve(cwd, folder)) };
}

/** A tool that a checked server lists. */
interface CheckedTool {
  readonly server: string;
  readonly tool: string;
  readonly definition: JsonObject;
  /** Why it was not called; absent: it was. */
  readonly reason: string | undefined;
}

/** The tools that are on record in a check, and tests made of calls that succeeded. */
async function readCheckRun(
  runs: string,
  folder: string,
  local: readonly string[],
): Promise<{ readonly tests: readonly StarterTest[]; readonly tools: readonly CheckedTool[] }> {
  const { plan, events } = await readRun(runs, basename(folder));
  const trajectories = plan.trials.flatMap((trial): Trajectory[] => {
    const task = plan.tasks.find(({ name }) => name === trial.task);
    if (task === undefined) return [];
    return [
      buildTrajectory(
        trial,
        task,
        events.filter((event) => event.trial === trial.id),
      ),
    ];
  });
  const ofKind = (kind: string): Trajectory[] => trajectories.filter(({ task }) => task.check?.kind === kind);
  const tests = ofKind("calls").flatMap((trajectory) => testsOfCalls(trajectory, local));
  const tools = ofKind("definitions").flatMap(({ task, exchanges }) => {
    const { notCalled = [] } = task.check ?? {};
    const [server = ""] = task.servers;
    return readSurface(exchanges).tools.flatMap(({ name: tool, isNamed, definition }): CheckedTool[] => {
      const reason = notCalled.find((each) => each.tool === tool)?.reason;
      return isNamed ? [{ server, tool, definition, reason }] : [];
    });
  });
  return { tests, tools };
}

function requiredOf({ definition }: CheckedTool): readonly unknown[] {
  return asList(asObject(definition["inputSchema"])["required"]);
}

/**
 * For each server without a test a call without arguments of a tool that requires some. A tool that may destroy something is the last
 * choice, and one that says that it does is none.
 */
function refusedCalls(tools: readonly CheckedTool[], kept: readonly StarterTest[]): readonly StarterTest[] {
  const open = tools.filter((each) => !kept.some(({ server }) => server === each.server));
  return [...Map.groupBy(open, ({ server }) => server)].flatMap(([server, own]) => {
    const having = (hint: boolean | undefined): CheckedTool | undefined =>
      own.find(
        (each) =>
          requiredOf(each).length > 0 && asObject(each.definition["annotations"])["destructiveHint"] === hint,
      );
    const found = having(false) ?? having(undefined);
    return found === undefined
      ? []
      : [{ server, tool: found.tool, description: "", args: {}, isRefused: true }];
  });
}

/** Tools for which example arguments are made; the file shows no more of a server than a part of these. */
const maxExamples = 200;

/** The tools without a test, with arguments that fit as far as some can be made. */
async function untestedTools(
  tools: readonly CheckedTool[],
  tried: readonly StarterTest[],
  kept: readonly StarterTest[],
): Promise<readonly UntestedTool[]> {
  const isIn = (tests: readonly StarterTest[], { server, tool }: CheckedTool): boolean =>
    tests.some((test) => test.server === server && test.tool === tool);
  const untested = tools.filter((each) => !isIn(kept, each));
  const examples = await exampleArguments(
    untested.slice(0, maxExamples).map(({ definition }) => definition["inputSchema"] ?? {}),
  );
  return untested.map((each, index): UntestedTool => {
    const { server, tool } = each;
    const args =
      examples[index] ?? Object.fromEntries(requiredOf(each).map((name) => [String(name), "fill in"]));
    const failed = isIn(tried, each) ? "a second call did not succeed" : "its call did not succeed";
    return { server, tool, description: "", args, reason: each.reason ?? failed };
  });
}

/** The tests that pass when they are run again; where only the result differs, without what was expected of it. */
async function repeatable(
  tests: readonly StarterTest[],
  loaded: LoadedConfig,
  options: { readonly cwd: string; readonly signal: AbortSignal },
): Promise<readonly StarterTest[]> {
  const passing = await passed(tests, loaded, options);
  const others = tests
    .filter((test) => !passing.has(test) && test.expectedResult !== undefined)
    .map(({ server, tool, description, args }): StarterTest => ({
      server,
      tool,
      description,
      args,
      openBecause: "a second call had another result",
    }));
  const weaker = await passed(others, loaded, options);
  const byTool = new Map([...passing, ...weaker].map((test) => [`${test.server}\n${test.tool}`, test]));
  return tests.flatMap(({ server, tool }) => byTool.get(`${server}\n${tool}`) ?? []);
}

async function passed(
  tests: readonly StarterTest[],
  { eval: { servers }, ...loaded }: LoadedConfig,
  { cwd, signal }: { readonly cwd: string; readonly signal: AbortSignal },
): Promise<ReadonlySet<StarterTest>> {
  if (tests.length === 0) return new Set();
  const placeholders = mapValues(servers, () => ({ transport: "shttp", url: "http://127.0.0.1/" }));
  const config = starterDocument({ servers: placeholders, tests });
  const { eval: spec } = await load({ sources: config, cwd, signal });
  const shared = mapValues(servers, (server) => ({ ...server, lifetime: "per_run" as const }));
  const { result } = await run(
    { ...loaded, eval: { ...spec, servers: shared } },
    { cwd, signal, output: false },
  );
  signal.throwIfAborted();
  const { trials } = result;
  return new Set(tests.filter((_, index) => trials[index]?.verdict === "pass"));
}

/** Throws `store/unwritable`, also when there is a file by now. */
function write(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: "wx" });
  } catch (cause) {
    throw new McpvalsError("store/unwritable", `${file} cannot be written: ${messageOf(cause)}`, { cause });
  }
}
