import { readCheck } from "../../src/check/check-view.ts";
import { findDefects } from "../../src/check/catalogue.ts";
import { type Finding, findingsOf, type RunFinding } from "../../src/model/finding.ts";
import type { CheckKind, CheckSpec } from "../../src/model/check.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import type { Task } from "../../src/model/task.ts";
import { exitCode } from "../../src/report/result.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { buildTrajectory } from "../../src/trace/trajectory.ts";
import { probeServer } from "../../src/check/server-prober.ts";
import { check, type CheckOptions, loadServers } from "../../src/check.ts";
import { planCheck } from "../../src/check/plan-check.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { join } from "node:path";
import { exact, mapValues } from "../../src/base/json.ts";
import { findTracer, whyNoAnswers } from "../../src/check/confinement.ts";
import { sandboxOf } from "../../src/sandbox/sandboxes.ts";
import { whyNot } from "../sandbox/support.ts";
import { stdioSpec } from "../servers/support.ts";
import { folderOf, root } from "../support/cli.ts";

/** A server without defects but those that are named; see its program. */
export function faultyServer(...faults: readonly string[]): ServerSpec {
  return stdioSpec(process.execPath, [join(root, "test/fixtures/servers/faulty-server.mjs"), ...faults]);
}

/** How a part of a check runs. */
interface PartOptions extends Partial<Omit<CheckSpec, "kind">> {
  readonly callMs?: number;
}

/** The findings of one part of a check of a server. */
export async function findingsIn(
  kind: CheckKind,
  spec: ServerSpec,
  { callMs = 5000, ...rest }: PartOptions = {},
): Promise<readonly Finding[]> {
  const events: TraceEvent[] = [];
  const part: CheckSpec = { kind, disable: [], ...rest };
  await probeServer({
    server: "s",
    spec,
    check: part,
    signal: new AbortController().signal,
    callMs,
    emit: (event) => events.push({ ...event, seq: events.length + 1, at: performance.now(), trial: "t" }),
  });
  const task: Task = {
    name: kind,
    form: "check",
    servers: ["s"],
    turns: [],
    expectTools: [],
    verify: [],
    parallel: true,
    check: part,
  };
  const trajectory = buildTrajectory({ id: "t", task: kind, agent: null, attempt: 1 }, task, events);
  await using validator = new SchemaValidator();
  return findDefects(readCheck(trajectory, part), { validateSchema: validator.validate.bind(validator) });
}

/** The exit code and the findings of a whole check. Unlike those of `runHere`, checks can run beside one another. */
export async function checked(
  command: readonly string[],
  options: CheckOptions = {},
): Promise<{ readonly code: number; readonly findings: readonly RunFinding[] }> {
  const { verdict, findings } = await check(command, { output: false, ...options });
  return { code: exitCode(verdict), findings };
}

/** What the part security of a check finds, as reports have it. */
export async function securityFindings(command: readonly string[], cwd: string): Promise<readonly Finding[]> {
  const { signal } = new AbortController();
  const {
    eval: { servers },
  } = await loadServers(command, { cwd, signal });
  await using validator = new SchemaValidator();
  const { tasks } = await planCheck(servers, {
    calls: "none",
    security: true,
    disable: [],
    accepted: [],
    callMs: 5000,
    signal,
    validationOf: () => validator.validate.bind(validator),
  });
  const [server] = Object.values(servers);
  const part = tasks.find(({ check: each }) => each?.kind === "security")?.check;
  if (server === undefined || part === undefined) throw new Error("no part of the check is about security");
  const all = await findingsIn("security", server, part);
  return findingsOf([{ id: "t", grades: [{ findings: all }] }]);
}

/** Why nothing can be watched here. */
export async function whyNotWatched(): Promise<string | undefined> {
  if (process.platform !== "linux") return "only tried on Linux";
  const reason = await whyNot(sandboxOf("process"));
  if (reason !== undefined) return reason;
  const { signal } = new AbortController();
  if ((await findTracer(signal)) === undefined) return "there is no strace that works";
  return whyNoAnswers(signal);
}

/** What is found about security in each tool of a server, which may be given folders: codes without `security/`, and messages. */
export async function foundInTools<T extends string>(
  tools: Readonly<Record<T, string>>,
  {
    parameter,
    args = [],
    files = {},
  }: {
    readonly parameter?: string;
    readonly args?: readonly string[];
    readonly files?: Readonly<Record<string, string>>;
  } = {},
): Promise<Readonly<Record<T, readonly string[]>>> {
  using folder = folderOf({ "server.mjs": serverWith(tools, { ...exact({ parameter }) }), ...files });
  const findings = await securityFindings([process.execPath, "server.mjs", ...args], folder.path);
  return mapValues(tools, (_, tool) => foundInTool(findings, tool)) as Record<T, readonly string[]>;
}

/** Of some findings about security those that concern a tool, also among others: codes without `security/`, and messages. */
export function foundInTool(findings: readonly Finding[], tool: string): readonly string[] {
  return findings.flatMap(({ code, message, place }) => {
    // It names all tools that did not work.
    const names = code === "security/not-tried" ? message.split(": ")[1]?.split(", ") : [place.tool ?? tool];
    return code.startsWith("security/") && names?.includes(tool) === true
      ? `${code.replace("security/", "")}: ${message}`
      : [];
  });
}

/** A server over stdio with a tool that does something in each call, and with a prompt. */
export function serverThat({
  call = "return say('done')",
  prompt,
}: {
  readonly call?: string;
  readonly prompt?: string;
}): string {
  return serverWith({ t: call }, exact({ prompt }));
}

/** A server over stdio with tools that take a text, each with what it does in a call. */
export function serverWith(
  tools: Readonly<Record<string, string>>,
  {
    prompt = "Hello",
    prompts = {},
    templates = {},
    parameter = "A path",
  }: {
    readonly prompt?: string;
    /** Prompts that take a text, each with what gives its message. */
    readonly prompts?: Readonly<Record<string, string>>;
    /** Templates of URIs that end with a text, each with what gives the text of the resource. */
    readonly templates?: Readonly<Record<string, string>>;
    /** What they say about the text. */
    readonly parameter?: string;
  } = {},
): string {
  const functions = (of: Readonly<Record<string, string>>): string =>
    Object.entries(of)
      .map(([name, work]) => `${JSON.stringify(name)}: async ({ path }) => { ${work} },`)
      .join("\n");
  return `
import { createInterface } from "node:readline";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
const say = (text) => ({ content: [{ type: "text", text }] });
const tools = { ${functions(tools)} };
const prompts = { ${functions(prompts)} };
const templates = { ${functions(templates)} };
const parameter = ${JSON.stringify(parameter)};
const messageOf = (text) => ({ messages: [{ role: "user", content: { type: "text", text } }] });
const argumentsGiven = [{ name: "path", description: parameter, required: true }];
const results = {
  initialize: () => ({ protocolVersion: "2025-11-25", capabilities: { tools: {}, prompts: {}, resources: {} }, serverInfo: { name: "s", version: "1" } }),
  "prompts/list": () => ({ prompts: [{ name: "p", description: "Asks for it." }, ...Object.keys(prompts).map((name) =>
    ({ name, description: "Asks for it.", arguments: argumentsGiven }))] }),
  "prompts/get": async ({ name, arguments: args }) => messageOf(name === "p" ? ${JSON.stringify(prompt)} : await prompts[name](args)),
  "resources/list": () => ({ resources: [] }),
  "resources/templates/list": () => ({ resourceTemplates: Object.keys(templates).map((uriTemplate) =>
    ({ uriTemplate, name: uriTemplate, description: parameter })) }),
  "resources/read": async ({ uri }) => {
    const template = Object.keys(templates).find((each) => uri.startsWith(each.slice(0, each.indexOf("{"))));
    const path = uri.slice(template.indexOf("{"));
    return { contents: [{ uri, text: await templates[template]({ path }) }] };
  },
  "tools/list": () => ({ tools: Object.keys(tools).map((name) => ({ name, description: "Does it.", annotations: { readOnlyHint: true },
    inputSchema: { type: "object", properties: { path: { type: "string", description: parameter } }, required: ["path"] } })) }),
  ping: () => ({}),
  "tools/call": ({ name, arguments: args }) => tools[name](args),
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  const answer = (id, rest) => console.log(JSON.stringify({ jsonrpc: "2.0", id, ...rest }));
  let message;
  try { message = JSON.parse(line); } catch { return answer(null, { error: { code: -32700, message: "no JSON" } }); }
  const { id, method, params } = message;
  if (id === undefined || method === undefined) return;
  if (results[method] === undefined) return answer(id, { error: { code: -32601, message: "no such method" } });
  if (method === "tools/call" && !Object.hasOwn(tools, params.name)) return answer(id, { error: { code: -32602, message: "no such tool" } });
  let result;
  try { result = await results[method](params); }
  catch (error) { return answer(id, { error: { code: -32603, message: error.message } }); }
  answer(id, { result });
});`;
}
