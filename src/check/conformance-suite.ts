import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { readJsonText } from "../core/formats/read-json.ts";
import { asList, asObject } from "../core/formats/json.ts";
import type { ConformanceSuite } from "../core/formats/model.ts";
import { abortAfter, untilAborted } from "../process/deadline.ts";
import { makeTemporaryFolder, removeFolder } from "../process/folders.ts";
import { ProgramOutput } from "../process/program-output.ts";
import { spawnProcess } from "../process/spawn.ts";

const packageName = "@modelcontextprotocol/conformance";

/**
 * The official conformance suite, as a module in one of the files or folders (with a separator at the end) would find it. Throws
 * McpvalsError `usage/invalid-option` when none does.
 */
export async function findConformanceSuite(places: readonly string[]): Promise<ConformanceSuite> {
  for (const place of places) {
    const file = resolved(place);
    if (file === undefined) continue;
    const { version, bin } = asObject(readJsonText(await readFile(file, "utf8")).value);
    const main = typeof bin === "string" ? bin : asObject(bin)["conformance"];
    if (typeof version === "string" && typeof main === "string")
      return { version, main: join(dirname(file), main) };
  }
  throw new McpvalsError("usage/invalid-option", `--conformance needs the package ${packageName}`, {
    hint: `Install it: npm install --save-dev ${packageName}`,
  });
}

function resolved(place: string): string | undefined {
  try {
    return createRequire(place).resolve(`${packageName}/package.json`);
  } catch {
    return undefined;
  }
}

/** The names of the suite's scenarios for servers. Throws McpvalsError `check/conformance-suite`, and the signal's reason. */
export async function listScenarios(
  suite: ConformanceSuite,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { text } = await inFolder((cwd) =>
    runSuite(suite, ["list", "--server"], { cwd, ms: listMs, signal }),
  );
  const names = [...text.matchAll(/^\s*- (\S+)/gm)].flatMap(([, name]) => name ?? []);
  if (names.length === 0) throw unusable(suite, "lists no scenarios", text);
  return names;
}

/** What the suite says of a requirement. */
export interface ConformanceCheck {
  readonly id: string;
  readonly description: string;
  readonly status: string;
  readonly message?: string;
  /** Where the requirement is written. */
  readonly sources: readonly string[];
}

/**
 * Runs one scenario against a URL. Undefined: it did not end in time. Throws McpvalsError `check/conformance-suite` when the suite
 * gives no report, and the signal's reason.
 */
export function runScenario(
  suite: ConformanceSuite,
  scenario: string,
  { url, ms, signal }: { readonly url: string; readonly ms: number; readonly signal: AbortSignal },
): Promise<readonly ConformanceCheck[] | undefined> {
  return inFolder(async (cwd) => {
    const args = ["server", "--url", url, "--scenario", scenario, "--output-dir", cwd];
    const { ended, text } = await runSuite(suite, args, { cwd, ms, signal });
    if (!ended) return undefined;
    // The suite makes a folder whose name has the time.
    const [report] = await readdir(cwd);
    if (report === undefined) throw unusable(suite, `gave no report on ${scenario}`, text);
    const { value } = readJsonText(await readFile(join(cwd, report, "checks.json"), "utf8"));
    if (!Array.isArray(value)) throw unusable(suite, `gave no report on ${scenario}`, text);
    return value.map((item) => {
      const { id, description, status, errorMessage, specReferences } = asObject(item);
      return {
        id: textOf(id),
        description: textOf(description),
        status: textOf(status),
        ...(typeof errorMessage === "string" ? { message: errorMessage } : {}),
        sources: asList(specReferences).map((source) => textOf(asObject(source)["url"])),
      };
    });
  });
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await makeTemporaryFolder("work");
  try {
    return await work(folder);
  } finally {
    await removeFolder(folder);
  }
}

const listMs = 30_000;

/** Every user of the machine can read command lines, and the URL has the secret of the trial. */
const argumentsVariable = "MCPVALS_CONFORMANCE";
const takeArguments = `data:text/javascript,const{argv,env}=process;argv.push(...JSON.parse(env.${argumentsVariable}))`;

interface SuiteEnd {
  /** False: it was stopped at the time limit. */
  readonly ended: boolean;
  /** What it printed. */
  readonly text: string;
}

async function runSuite(
  { main }: ConformanceSuite,
  args: readonly string[],
  { cwd, ms, signal }: { readonly cwd: string; readonly ms: number; readonly signal: AbortSignal },
): Promise<SuiteEnd> {
  signal.throwIfAborted();
  using deadline = abortAfter(ms, () => undefined, signal);
  const child = await spawnProcess({
    command: process.execPath,
    args: ["--import", takeArguments, main],
    env: { [argumentsVariable]: JSON.stringify(args) },
    cwd,
  });
  const output = new ProgramOutput();
  output.attach(child);
  try {
    await untilAborted(child.exited, deadline.signal);
  } catch {
    signal.throwIfAborted();
  }
  const ended = child.exit !== undefined;
  await output.settle(1000);
  await child.stop({ stdinMs: 0 });
  return { ended, text: output.together };
}

function unusable({ version }: ConformanceSuite, problem: string, detail: string): McpvalsError {
  return new McpvalsError("check/conformance-suite", `${packageName} ${version} ${problem}`, { detail });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
