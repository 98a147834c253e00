import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { McpvalsError, messageOf } from "../../core/errors/error.ts";
import { asList, asObject, type JsonObject } from "../../core/formats/json.ts";
import { countFindings } from "../../core/lint/finding.ts";
import {
  starterDocument,
  starterText,
  type StarterTest,
  testsOfCalls,
  type UntestedTool,
  writtenServer,
} from "../../core/report/starter-config.ts";
import { findingsOf } from "../../core/report/run-findings.ts";
import { readSurface } from "../../core/lint/check-view.ts";
import { buildTrajectory, type Trajectory } from "../../core/trace/trajectory.ts";
import type { LoadedConfig } from "../../load/assemble-eval.ts";
import { load } from "../../load/load.ts";
import { configExtensions } from "../../load/sources.ts";
import { describeTarget, loadTarget, type Target } from "../../load/target.ts";
import { checkServers } from "../../run/check-servers.ts";
import { run } from "../../run/run.ts";
import { defaultRunsFolder, readRun } from "../../store/run-folder.ts";
import { addTarget, type SetExitCode, type TargetFlags, targetOf } from "../flags.ts";
import {
  abortOnInterrupt,
  askAtTerminal,
  workingFolder,
  writeError,
  writeNotes,
  writeOut,
} from "../terminal.ts";

/** The flags of `init` as commander gives them. */
interface InitFlags extends TargetFlags {
  readonly yes?: boolean;
}

const fileName = "mcp-eval.config.yaml";

/** `mcpvals init`: writes a first config, with tests made of what the servers answer. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addTarget(command)
    .option("-y, --yes", "start the servers without asking")
    .action(async (_: unknown, flags: InitFlags) => setExitCode(await execute(targetOf(command), flags)));
}

/** Returns the exit code. Throws McpvalsError for a config that exists, and for a server that cannot be started or reached. */
async function execute(given: Target, { yes = false }: InitFlags): Promise<number> {
  const cwd = workingFolder();
  refuseExisting(cwd);
  using interrupt = abortOnInterrupt();
  const { signal } = interrupt;
  const ask = askAtTerminal();
  const target = await findTarget(given, { cwd, signal });
  const described = await describeTarget(target, { cwd, signal });
  const names = Object.keys(described).join(", ");
  if (!yes && ask !== undefined && !(await agrees(`Start ${names} and call the tools that only read?`)))
    return 0;
  const loaded = await loadTarget(target, { cwd, signal, ask });
  writeNotes(loaded);
  writeError(`Checking ${names} ...`);
  const { result, folder = "" } = await checkServers(loaded, { calls: "safe", cwd, signal });
  signal.throwIfAborted();
  const { tests, untested } = await readCheckRun(resolve(cwd, defaultRunsFolder), folder);
  const variables = new Set<string>();
  const servers = Object.fromEntries(
    Object.entries(described).map(([name, server]) => [
      name,
      withRelativeFolder(writtenServer(server, { secrets: loaded.secrets, variables }), cwd),
    ]),
  );
  writeError(`Trying ${tests.length} tests ...`);
  const kept = await repeatable(tests, loaded, { cwd, signal });
  write(join(cwd, fileName), starterText({ servers, tests: kept, untested }));
  const findings = findingsOf(result.trials);
  const check = `npx --no-install mcpvals check`;
  writeOut(
    [
      `Wrote ${fileName}: ${kept.length} tool ${kept.length === 1 ? "test" : "tests"} that passed just now.`,
      ...(untested.length === 0
        ? []
        : [`Tools without a test, in the file as comments: ${untested.length}.`]),
      ...(findings.length === 0 ? [] : [`The check found ${countFindings(findings)}: ${check} shows them.`]),
      ...(variables.size === 0 ? [] : [`Set these variables first: ${[...variables].join(", ")}`]),
      "",
      kept.length === 0
        ? "Next: fill in one of the tests in the file, then npx --no-install mcpvals run"
        : "Next: npx --no-install mcpvals run",
    ].join("\n"),
  );
  return 0;
}

function refuseExisting(cwd: string): void {
  const existing = configExtensions
    .map((extension) => `mcp-eval.config.${extension}`)
    .find((name) => existsSync(join(cwd, name)));
  if (existing === undefined) return;
  throw new McpvalsError("usage/invalid-option", `${existing} exists, and init overwrites nothing`, {
    hint: "Run it: mcpvals run",
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

async function agrees(question: string): Promise<boolean> {
  const { createInterface } = await import("node:readline/promises");
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return !/^\s*n/i.test(await reader.question(`${question} [Y/n] `));
  } finally {
    reader.close();
  }
}

/** A folder below that of the config is written relative to it; the folder itself is the default. */
function withRelativeFolder({ cwd: folder, ...server }: JsonObject, cwd: string): JsonObject {
  if (typeof folder !== "string" || resolve(cwd, folder) === cwd) return server;
  return { ...server, cwd: relative(cwd, resolve(cwd, folder)) };
}

/** What the record of a check says of each tool: a test made of a call that succeeded, or that it was not called. */
async function readCheckRun(
  runs: string,
  folder: string,
): Promise<{ readonly tests: readonly StarterTest[]; readonly untested: readonly UntestedTool[] }> {
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
  const tests = ofKind("calls").flatMap(testsOfCalls);
  const untested = ofKind("definitions").flatMap(({ task, exchanges }) => {
    const { tools } = readSurface(exchanges);
    const { notCalled = [] } = task.check ?? {};
    const [server = ""] = task.servers;
    return tools.flatMap(({ name: tool, definition }): UntestedTool[] => {
      if (tests.some((test) => test.server === server && test.tool === tool)) return [];
      const required = asList(asObject(definition["inputSchema"])["required"]);
      const { reason = "its call did not succeed" } = notCalled.find((each) => each.tool === tool) ?? {};
      return [{ server, tool, required: required.filter((name) => typeof name === "string"), reason }];
    });
  });
  return { tests, untested };
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
    .map(({ server, tool, description, args }): StarterTest => ({ server, tool, description, args }));
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
  const placeholders = Object.fromEntries(
    Object.keys(servers).map((name) => [name, { transport: "shttp", url: "http://127.0.0.1/" }]),
  );
  const config = starterDocument({ servers: placeholders, tests });
  const { eval: spec } = await load({ sources: config, cwd, signal });
  const shared = Object.fromEntries(
    Object.entries(servers).map(([name, server]) => [name, { ...server, lifetime: "per_run" as const }]),
  );
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
