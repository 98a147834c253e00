import type { McpvalsError } from "../../core/errors/error.ts";
import {
  type ExtensionManifest,
  type ExtensionPhase,
  extensionProtocolVersion,
} from "../../core/formats/extension/manifest.ts";
import { readInitializeResult, readOperationResult } from "../../core/formats/extension/protocol.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { abortAfter, settlesWithin } from "../../process/deadline.ts";
import { formatExit } from "../host/extension-process.ts";
import { initializeParams, JsonRpcExtension, type RpcReply } from "../host/json-rpc-extension.ts";
import { rpcErrorText } from "../host/rpc-message.ts";
import {
  type ContractVerdict,
  fail,
  Faults,
  type Finding,
  pass,
  skip,
  type Subject,
  warn,
} from "./contract-report.ts";
import { checkManifest, compareManifests, operationsWithRequiredArguments } from "./manifest-checks.ts";
import { checkLeftovers, contextOf, problemOf, shown, startOf, unknownOperation } from "./subject-process.ts";

/** How long a program may take to end, in milliseconds; no longer than for an answer. */
const endMs = 5000;
/** Longer than the 64 KiB that some line readers accept. */
const longText = "long ".repeat(20_000);
const unknownMethodCode = -32_601;
const invalidParamsCode = -32_602;

/** Tries a program that speaks JSON-RPC. Rejects only with the signal's reason. */
export async function tryJsonRpc(subject: Subject): Promise<{
  readonly verdicts: readonly ContractVerdict[];
  /** The manifest that it gives, if it can be read. */
  readonly manifest: ExtensionManifest | undefined;
}> {
  await using trial = new JsonRpcTrial(subject);
  const manifest = await trial.run();
  await trial[Symbol.asyncDispose]();
  return { verdicts: trial.verdicts(), manifest };
}

/** A reply, or why there is none; the program cannot be used any more then. */
type Reply = RpcReply | { readonly missing: string };

type Execute = (
  operation: string,
  more?: { readonly args?: JsonObject; readonly phase?: ExtensionPhase },
) => Promise<Reply>;

/** A request to a program that has answered `initialize`. */
interface SessionCheck {
  readonly name: string;
  /** Whether it needs an answer to `execute`. */
  readonly executes: boolean;
  readonly run: (trial: JsonRpcTrial, manifest: ExtensionManifest) => Promise<Finding>;
}

/** In the order in which they are tried, on one process as long as it can be used. */
const sessionChecks: readonly SessionCheck[] = [
  {
    name: "unknown operation",
    executes: true,
    run: async ({ execute }) => refusal(await execute(unknownOperation), "an unknown operation"),
  },
  { name: "unknown method", executes: false, run: (trial) => tryUnknownMethod(trial) },
  { name: "arguments", executes: true, run: ({ execute }, manifest) => tryArguments(execute, manifest) },
  { name: "requests in a row", executes: true, run: ({ execute }) => tryRow(execute) },
  { name: "long line", executes: true, run: ({ execute }) => tryLongLine(execute) },
];

/** The checks after `initialize`. */
const laterChecks = [
  "protocol version",
  "manifest",
  "manifest file",
  ...sessionChecks.map(({ name }) => name),
  "shutdown",
  "other version",
  "end of stdin",
];

class JsonRpcTrial implements AsyncDisposable {
  readonly #subject: Subject;
  readonly #faults = new Faults();
  readonly #start: ReturnType<typeof startOf>;
  readonly #verdicts: ContractVerdict[] = [];
  #program: JsonRpcExtension | undefined;
  /** The check after which `execute` was not answered any more. */
  #muteSince: string | undefined;
  #answered = false;

  constructor(subject: Subject) {
    this.#subject = subject;
    this.#start = startOf(subject, this.#faults);
  }

  /** Tries everything, and gives the manifest. */
  async run(): Promise<ExtensionManifest | undefined> {
    const reply = await this.#initialize();
    const manifest = this.#checkInitialize(reply);
    if (manifest === undefined) return undefined;
    for (const { name, executes, run } of sessionChecks) {
      if (executes && this.#muteSince !== undefined) {
        this.#add(name, skip(`execute cannot be tried any more, see "${this.#muteSince}"`));
        continue;
      }
      await this.#try(name, () => run(this, manifest));
      if (executes && !this.#isUsable) this.#muteSince = name;
    }
    await this.#try("shutdown", (program) => this.#shutDown(program));
    this.#add("other version", await this.#tryOtherVersion());
    await this.#try("end of stdin", (program) => {
      program.expectEnd();
      program.process.stdin.end();
      return this.#endOf(program, "after its stdin was closed");
    });
    return manifest;
  }

  /** To be called when everything has ended. */
  verdicts(): readonly ContractVerdict[] {
    return [...this.#verdicts, ...this.#faults.verdicts("json-rpc", this.#answered)];
  }

  readonly execute: Execute = (operation, { args = {}, phase } = {}) =>
    this.request("execute", { operation, args, context: contextOf(this.#subject, phase) });

  async request(method: string, params: object): Promise<Reply> {
    const { signal, timeoutMs, startupMs } = this.#subject;
    const ms = method === "initialize" ? startupMs : timeoutMs;
    const program = this.#program;
    if (program === undefined) return { missing: "the program was not started" };
    const late = (): McpvalsError =>
      program.process.error("extension/timeout", `did not answer ${method} within ${ms} ms`);
    using limit = abortAfter(ms, late, signal);
    try {
      return await program.request(method, params, limit.signal);
    } catch (error) {
      const { unfinishedLine: line } = program;
      const half = line === undefined ? "" : `; a line without its end: ${shown(line.toString("utf8"))}`;
      // Output that is buffered is the most frequent mistake of new extensions.
      const isSilent = limit.signal.aborted && method === "initialize" && line === undefined;
      const flush = isSilent ? "; does the program flush its stdout after each line?" : "";
      return { missing: `${problemOf(error, this.#subject, this.#faults)}${half}${flush}` };
    }
  }

  /** Ends the program. */
  async [Symbol.asyncDispose](): Promise<void> {
    const program = this.#program;
    this.#program = undefined;
    await program?.[Symbol.asyncDispose]();
    const line = program?.unfinishedLine?.toString("utf8");
    if (line !== undefined) this.#faults.add("unfinished line", `a line without its end: ${shown(line)}`);
  }

  get #isUsable(): boolean {
    return this.#program?.fault === undefined && this.#program?.process.exit === undefined;
  }

  #add(name: string, finding: Finding): void {
    this.#verdicts.push({ name, protocol: "json-rpc", ...finding });
  }

  #skip(names: readonly string[], reason: string): undefined {
    for (const name of names) this.#add(name, skip(reason));
  }

  #checkInitialize(reply: Reply): ExtensionManifest | undefined {
    if (!("result" in reply)) {
      const needsConfig = Object.keys(this.#subject.config).length === 0;
      const hint = needsConfig ? "; it got no config, which it may need" : "";
      const message =
        "missing" in reply ? reply.missing : `answered with the error ${rpcErrorText(reply.error)}${hint}`;
      this.#add("initialize", fail(message));
      return this.#skip(laterChecks, "initialize was not answered with a result");
    }
    this.#add("initialize", pass("answered with a result"));
    this.#add("protocol version", versionFinding(reply.result));
    this.#add("manifest", checkManifest(reply.result));
    const read = readInitializeResult(reply.result);
    if (!read.ok) return this.#skip(laterChecks.slice(2), "the manifest cannot be read");
    this.#add("manifest file", compareManifests(read.manifest, this.#subject.manifest));
    return read.manifest;
  }

  /** Runs a check on the program, or on a new one when that cannot be used any more. */
  async #try(name: string, check: (program: JsonRpcExtension) => Promise<Finding>): Promise<void> {
    if (this.#program === undefined || !this.#isUsable) await this.#initialize();
    const program = this.#program;
    this.#add(
      name,
      program === undefined || !this.#isUsable
        ? skip("a new process did not answer initialize")
        : await check(program),
    );
  }

  async #tryOtherVersion(): Promise<Finding> {
    const reply = await this.#initialize("999.0.0");
    await this[Symbol.asyncDispose]();
    if ("error" in reply) return pass("another protocolVersion is refused");
    const what = "missing" in reply ? reply.missing : "it was answered with a result";
    return warn(`protocolVersion 999.0.0 should be refused with an error: ${what}`);
  }

  /** Starts a new process and initializes it. */
  async #initialize(protocolVersion: string = extensionProtocolVersion): Promise<Reply> {
    await this[Symbol.asyncDispose]();
    try {
      this.#program = await JsonRpcExtension.start({
        ...this.#start,
        onStray: (problem) => this.#faults.add("answers once", problem),
      });
    } catch (error) {
      return { missing: problemOf(error, this.#subject, this.#faults) };
    }
    const reply = await this.request("initialize", initializeParams(protocolVersion, this.#subject.config));
    this.#answered ||= !("missing" in reply);
    return reply;
  }

  async #shutDown(program: JsonRpcExtension): Promise<Finding> {
    program.expectEnd();
    const reply = await this.request("shutdown", {});
    if ("missing" in reply) return fail(`shutdown: ${reply.missing}`);
    if ("error" in reply) return fail(`shutdown was answered with the error ${rpcErrorText(reply.error)}`);
    return this.#endOf(program, "after shutdown");
  }

  async #endOf({ process }: JsonRpcExtension, when: string): Promise<Finding> {
    const ms = Math.min(endMs, this.#subject.timeoutMs);
    const hasEnded = await settlesWithin(process.ended, ms);
    this.#subject.signal.throwIfAborted();
    if (!hasEnded || process.exit === undefined)
      return fail(`the program still runs ${ms / 1000} seconds ${when}`);
    await checkLeftovers(process, this.#start, this.#faults);
    return process.exit.exitCode === 0
      ? pass(`it ends with exit code 0 ${when}`)
      : fail(`${when} the program ${formatExit(process.exit)}`);
  }
}

function versionFinding(result: Json): Finding {
  const version = isJsonObject(result) ? result["protocolVersion"] : undefined;
  return version === extensionProtocolVersion
    ? pass(extensionProtocolVersion)
    : fail(`protocolVersion is ${JSON.stringify(version) ?? "missing"}, not "${extensionProtocolVersion}"`);
}

async function tryUnknownMethod(trial: JsonRpcTrial): Promise<Finding> {
  const reply = await trial.request("mcpvals/noSuchMethod", {});
  if ("missing" in reply) return fail(`an unknown method: ${reply.missing}`);
  if ("result" in reply) return fail("an unknown method was answered with a result");
  if (reply.error["code"] === unknownMethodCode) return pass(`refused with ${unknownMethodCode}`);
  const text = rpcErrorText(reply.error);
  return fail(`an unknown method was answered with the error ${text}, not with ${unknownMethodCode}`);
}

async function tryArguments(execute: Execute, manifest: ExtensionManifest): Promise<Finding> {
  const names = operationsWithRequiredArguments(manifest);
  if (names.length === 0) return skip("no operation has required arguments");
  for (const name of names) {
    const phase = manifest.operations[name]?.phases[0] ?? "setup";
    const reply = await execute(name, { phase });
    if ("error" in reply) continue;
    const what = `${name} without its required arguments`;
    const finding = refusal(reply, what);
    if (finding.outcome !== "pass") return finding;
    // `success: false` is a finding about the agent, and an invalid call is not.
    return warn(`${what} should be answered with the error ${invalidParamsCode}, not with success: false`);
  }
  return pass(`refused where they are missing: ${names.join(", ")}`);
}

async function tryRow(execute: Execute): Promise<Finding> {
  const replies = await Promise.all([execute(unknownOperation), execute(unknownOperation)]);
  const missing = replies.find((reply) => "missing" in reply);
  return missing === undefined
    ? pass("two requests without a wait between them were both answered")
    : fail(`two requests without a wait between them: ${missing.missing}`);
}

async function tryLongLine(execute: Execute): Promise<Finding> {
  const reply = await execute(unknownOperation, { args: { text: longText } });
  if (!("missing" in reply)) return pass(`a line of ${longText.length} bytes was read`);
  return warn(`a line of ${longText.length} bytes, more than 64 KiB: ${reply.missing}`);
}

function refusal(reply: Reply, what: string): Finding {
  if ("missing" in reply) return fail(`${what}: ${reply.missing}`);
  if ("error" in reply)
    return fail(`${what} was answered with the error ${rpcErrorText(reply.error)}, not with success: false`);
  const read = readOperationResult(reply.result);
  if (!read.ok) return fail(`${what} was answered with an invalid result: ${read.message}`);
  return read.result.success
    ? fail(`${what} was answered with success: true`)
    : pass("refused with success: false");
}
