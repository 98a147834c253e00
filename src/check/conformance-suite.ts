import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { McpvalsError } from "../base/error.ts";
import { readJsonText } from "../base/read-json.ts";
import { asList, asObject, asText } from "../base/json.ts";
import type { ConformancePlan, ConformanceSuite, SkippedScenario } from "../model/check.ts";
import type { ServerSpec } from "../model/server.ts";
import { abortAfter, untilAborted } from "../process/deadline.ts";
import { makeTemporaryFolder, removeFolder } from "../process/folders.ts";
import { ProgramOutput } from "../process/program-output.ts";
import { spawnProcess } from "../process/spawn.ts";
import type { Surface } from "./check-view.ts";
import type { ConformanceCheck } from "./prober.ts";

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
async function listScenarios(suite: ConformanceSuite, signal: AbortSignal): Promise<readonly string[]> {
  const { text } = await inFolder((cwd) =>
    runSuite(suite, ["list", "--server"], { cwd, ms: listMs, signal }),
  );
  const names = [...text.matchAll(/^\s*- (\S+)/gm)].flatMap(([, name]) => name ?? []);
  if (names.length === 0) throw unusable(suite, "lists no scenarios", text);
  return names;
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
        id: asText(id) ?? "",
        description: asText(description) ?? "",
        status: asText(status) ?? "",
        ...(typeof errorMessage === "string" ? { message: errorMessage } : {}),
        sources: asList(specReferences).map((source) => asText(asObject(source)["url"]) ?? ""),
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

/** What a server must have before a scenario says anything about it. */
interface Need {
  /** The path of a capability. */
  readonly capability?: readonly string[];
  /** The suite's own fixtures: names of a tool and a prompt, the URI of a resource, the start of a template of URIs. */
  readonly tool?: string;
  readonly prompt?: string;
  readonly resource?: string;
  readonly template?: string;
  /** The scenario is about the transport, and for a program that would be mcpvals' own. */
  readonly http?: true;
}

/** The scenarios of the suite that are known, by name, with what each needs. */
const needs: Readonly<Record<string, Need | { readonly never: string }>> = {
  "server-initialize": {},
  ping: {},
  "logging-set-level": { capability: ["logging"] },
  "completion-complete": { capability: ["completions"], prompt: "test_prompt_with_arguments" },
  "tools-list": { capability: ["tools"] },
  "tools-call-simple-text": { tool: "test_simple_text" },
  "tools-call-image": { tool: "test_image_content" },
  "tools-call-audio": { tool: "test_audio_content" },
  "tools-call-embedded-resource": { tool: "test_embedded_resource" },
  "tools-call-mixed-content": { tool: "test_multiple_content_types" },
  "tools-call-with-logging": { tool: "test_tool_with_logging" },
  "tools-call-error": { tool: "test_error_handling" },
  "tools-call-with-progress": { tool: "test_tool_with_progress" },
  "tools-call-sampling": { tool: "test_sampling" },
  "tools-call-elicitation": { tool: "test_elicitation" },
  "elicitation-sep1034-defaults": { tool: "test_elicitation_sep1034_defaults" },
  "elicitation-sep1330-enums": { tool: "test_elicitation_sep1330_enums" },
  "json-schema-2020-12": { tool: "json_schema_2020_12_tool" },
  "server-sse-polling": { http: true, tool: "test_reconnection" },
  "server-sse-multiple-streams": { http: true, capability: ["tools"] },
  "resources-list": { capability: ["resources"] },
  "resources-read-text": { resource: "test://static-text" },
  "resources-read-binary": { resource: "test://static-binary" },
  "resources-templates-read": { template: "test://template/" },
  "resources-subscribe": { capability: ["resources", "subscribe"], resource: "test://watched-resource" },
  "resources-unsubscribe": { capability: ["resources", "subscribe"], resource: "test://watched-resource" },
  "prompts-list": { capability: ["prompts"] },
  "prompts-get-simple": { prompt: "test_simple_prompt" },
  "prompts-get-with-args": { prompt: "test_prompt_with_arguments" },
  "prompts-get-embedded-resource": { prompt: "test_prompt_with_embedded_resource" },
  "prompts-get-with-image": { prompt: "test_prompt_with_image" },
  "dns-rebinding-protection": { never: "the check tries a foreign origin itself (protocol/origin)" },
};

interface PlanOptions {
  readonly surface: Surface;
  readonly transport: ServerSpec["transport"];
  readonly signal: AbortSignal;
}

/** What each suite lists: all servers of a check share it, since the suite takes long to start. */
const listings = new WeakMap<ConformanceSuite, Promise<readonly string[]>>();

/**
 * Chooses the scenarios of a suite that say something about a server. Throws McpvalsError `check/conformance-suite`, and the
 * signal's reason.
 */
export async function planConformance(
  suite: ConformanceSuite,
  { surface, transport, signal }: PlanOptions,
): Promise<ConformancePlan> {
  const scenarios: string[] = [];
  const skipped: SkippedScenario[] = [];
  let listing = listings.get(suite);
  if (listing === undefined) listings.set(suite, (listing = listScenarios(suite, signal)));
  for (const scenario of await listing) {
    const reason = obstacle(scenario, surface, transport);
    if (reason === undefined) scenarios.push(scenario);
    else skipped.push({ scenario, reason });
  }
  return { suite, scenarios, skipped };
}

/** Why a scenario says nothing about a server; undefined: it does. */
function obstacle(
  scenario: string,
  { capabilities, protocolVersion, tools, prompts, resources, resourceTemplates }: Surface,
  transport: ServerSpec["transport"],
): string | undefined {
  const need = Object.hasOwn(needs, scenario) ? needs[scenario] : undefined;
  if (need === undefined) return "mcpvals does not know what it needs";
  if ("never" in need) return need.never;
  if (protocolVersion === "") return "no version of MCP in which sessions begin with initialize";
  const { http, capability, tool, prompt, resource, template } = need;
  if (http === true && transport === "stdio") return "it is about HTTP";
  if (capability !== undefined && !isDeclared(capabilities, capability))
    return `no capability ${capability.join(".")}`;
  if (tool !== undefined && !tools.some(({ name }) => name === tool)) return `no tool ${tool}`;
  if (prompt !== undefined && !prompts.some(({ name }) => name === prompt)) return `no prompt ${prompt}`;
  if (resource !== undefined && !resources.some(({ name }) => name === resource))
    return `no resource ${resource}`;
  if (template !== undefined && !resourceTemplates.some(({ name }) => name.startsWith(template)))
    return `no template of resources below ${template}`;
  return undefined;
}

function isDeclared(capabilities: unknown, path: readonly string[]): boolean {
  let value: unknown = capabilities;
  for (const key of path) value = asObject(value)[key];
  return value !== undefined && value !== null && value !== false;
}
