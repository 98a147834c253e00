import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { McpvalsError } from "../../base/error.ts";
import { type ExtensionManifest, type ExtensionProtocol, extensionProtocolVersion } from "../manifest.ts";
import { readInitializeResult, readOperationResult } from "../protocol.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { abortAfter, settlesWithin, withDeadline } from "../../process/deadline.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import { type ExtensionProcess, formatExit } from "../host/extension-process.ts";
import { initializeParams, JsonRpcExtension, type RpcReply, rpcErrorText } from "../host/json-rpc.ts";
import { readOutput, readResult, startOneShot, writeCall } from "../host/one-shot.ts";
import {
  checkManifest,
  compareManifests,
  type ContractVerdict,
  fail,
  type ContractResult,
  operationsWithRequiredArguments,
  pass,
  shown,
  skip,
  type Subject,
  SubjectProgram,
  unknownOperation,
  warn,
} from "./subject.ts";
import type { ExtensionPhase } from "../../model/extension.ts";

export type { ContractVerdict } from "./subject.ts";

/** The result of the contract checks of a program. */
export interface ContractReport {
  /** The command with its arguments. */
  readonly program: string;
  /** The protocols that were tried. */
  readonly protocols: readonly ExtensionProtocol[];
  /** In the order in which they were reached. At least one is not `skip`. */
  readonly verdicts: readonly ContractVerdict[];
}

/** `timeoutMs` is 10 seconds by default, `startupMs` as long as `timeoutMs`. */
export interface ContractOptions
  extends
    Pick<Subject, "command" | "args" | "cwd" | "env" | "signal">,
    Partial<Pick<Subject, "config" | "timeoutMs" | "startupMs">> {
  readonly manifest?: ExtensionManifest;
  /** Default: the one of the manifest, or JSON-RPC. */
  readonly protocols?: readonly ExtensionProtocol[];
}

/**
 * Checks from outside that a program does what every extension must do. No operation is carried out: only unknown ones are
 * called, and known ones without their required arguments. When it returns, everything that was started has ended. Rejects
 * with the signal's reason. One-shot checks after those of JSON-RPC use the manifest that the program gave there.
 */
export async function runContract(options: ContractOptions): Promise<ContractReport> {
  const { config = {}, manifest, timeoutMs = 10_000, startupMs = timeoutMs } = options;
  const { protocols = [manifest?.protocol ?? "json-rpc"] } = options;
  const subject: Subject = { ...options, config, manifest, timeoutMs, startupMs };
  const verdicts: ContractVerdict[] = [];
  let known = manifest;
  for (const protocol of protocols) {
    if (protocol === "one-shot") {
      verdicts.push(...(await tryOneShot({ ...subject, manifest: known })));
    } else {
      const outcome = await tryJsonRpc(subject);
      verdicts.push(...outcome.verdicts);
      known ??= outcome.manifest;
    }
  }
  return { program: [options.command, ...options.args].join(" "), protocols, verdicts };
}

/** Whether no check failed, and at least one was not skipped. */
export function contractHolds({ verdicts }: ContractReport): boolean {
  const tried = verdicts.filter(({ outcome }) => outcome !== "skip");
  return tried.length > 0 && tried.every(({ outcome }) => outcome !== "fail");
}

/** Tries a program in the protocol that starts it once for each operation. Rejects only with the signal's reason. */
async function tryOneShot(subject: Subject): Promise<readonly ContractVerdict[]> {
  const { manifest, config, timeoutMs, signal } = subject;
  const program = new SubjectProgram(subject);
  const folder = await makeTemporaryFolder("contract");
  /** Makes a call that must be refused. `isInvalid`: an exit code without a result is enough. */
  const call = async (
    words: readonly string[],
    what: string,
    isInvalid: boolean,
  ): Promise<ContractResult> => {
    let process: ExtensionProcess | undefined;
    try {
      const args = [...program.start.args, ...words];
      const started = await startOneShot({ ...program.start, args }, folder);
      process = started;
      const output = await withDeadline(() => readOutput(started), {
        ms: timeoutMs,
        signal,
        onTimeout: () => started.error("extension/timeout", `did not end within ${timeoutMs} ms`),
      });
      await program.checkLeftovers(started);
      const { exitCode } = output.exit;
      const isSilent = output.stdout.toString("utf8").trim() === "";
      if (isInvalid && isSilent && exitCode !== null && exitCode !== 0)
        return pass("refused by the exit code");
      if (readResult(output, started, what).success) return fail(`${what} was answered with success: true`);
      return exitCode === 0
        ? warn(
            `${what} was answered with success: false, but the exit code is 0, which other hosts may go by`,
          )
        : pass("refused with success: false, and by the exit code");
    } catch (error) {
      return fail(`${what}: ${program.problemOf(error)}`);
    } finally {
      await process?.kill();
    }
  };
  const wordsOf = (operation: string): Promise<readonly string[]> => {
    const context = program.contextOf(manifest?.operations[operation]?.phases[0]);
    return writeCall(folder, { operation, args: {}, config, context });
  };
  const tryArguments = async (): Promise<ContractResult> => {
    if (manifest === undefined)
      return skip("without extension.yaml the arguments of operations are not known");
    const [name] = operationsWithRequiredArguments(manifest);
    if (name === undefined) return skip("no operation has required arguments");
    return call(await wordsOf(name), `${name} without its required arguments`, true);
  };
  try {
    const unknown = await call(await wordsOf(unknownOperation), "an unknown operation", false);
    // A program that does not work at all would refuse everything by its exit code.
    const untried = unknown.outcome === "fail" ? skip('not tried, see "unknown operation"') : undefined;
    const missing = ["action", unknownOperation, "--input", join(folder, "no-such-file.json")];
    const verdicts = [
      { name: "unknown operation", ...unknown },
      { name: "arguments", ...(untried ?? (await tryArguments())) },
      {
        name: "missing input",
        ...(untried ?? (await call(missing, "an input file that does not exist", true))),
      },
    ];
    const answered = verdicts.some(({ outcome }) => outcome === "pass" || outcome === "warn");
    return [
      ...verdicts.map((verdict): ContractVerdict => ({ protocol: "one-shot", ...verdict })),
      ...program.faultVerdicts("one-shot", answered),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Longer than the 64 KiB that some line readers accept. */
const longText = "long ".repeat(20_000);
const unknownMethodCode = -32_601;
const invalidParamsCode = -32_602;

/** Tries a program that speaks JSON-RPC. Rejects only with the signal's reason. */
async function tryJsonRpc(subject: Subject): Promise<{
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

/** Requests to a program that has answered `initialize`, in order, on one process as long as it can be used. */
const executeChecks = {
  "unknown operation": async (execute: Execute) =>
    refusal(await execute(unknownOperation), "an unknown operation"),
  arguments: tryArguments,
  "requests in a row": async (execute: Execute) => {
    const replies = await Promise.all([execute(unknownOperation), execute(unknownOperation)]);
    const missing = replies.find((reply) => "missing" in reply);
    return missing === undefined
      ? pass("two requests without a wait between them were both answered")
      : fail(`two requests without a wait between them: ${missing.missing}`);
  },
  "long line": async (execute: Execute) => {
    const reply = await execute(unknownOperation, { args: { text: longText } });
    if (!("missing" in reply)) return pass(`a line of ${longText.length} bytes was read`);
    return warn(`a line of ${longText.length} bytes, more than 64 KiB: ${reply.missing}`);
  },
};

/** The checks after `initialize`. */
const laterChecks = [
  "protocol version",
  "manifest",
  "manifest file",
  "unknown operation",
  "unknown method",
  "arguments",
  "requests in a row",
  "long line",
  "shutdown",
  "other version",
  "end of stdin",
] as const;

class JsonRpcTrial implements AsyncDisposable {
  readonly #subject: Subject;
  readonly #program: SubjectProgram;
  readonly #verdicts: ContractVerdict[] = [];
  #running: JsonRpcExtension | undefined;
  #answered = false;

  constructor(subject: Subject) {
    this.#subject = subject;
    this.#program = new SubjectProgram(subject);
  }

  /** Tries everything, and gives the manifest. */
  async run(): Promise<ExtensionManifest | undefined> {
    const manifest = this.#checkInitialize(await this.#initialize());
    if (manifest === undefined) return undefined;
    const execute: Execute = (operation, { args = {}, phase } = {}) =>
      this.#request("execute", { operation, args, context: this.#program.contextOf(phase) });
    /** The check after which `execute` was not answered any more. */
    let muteSince: string | undefined;
    for (const name of laterChecks.slice(3, 8)) {
      if (name === "unknown method") await this.#try(name, () => this.#tryUnknownMethod());
      else if (muteSince !== undefined)
        this.#add(name, skip(`execute cannot be tried any more, see "${muteSince}"`));
      else {
        const check = executeChecks[name as keyof typeof executeChecks];
        await this.#try(name, () => check(execute, manifest));
        if (!this.#isUsable) muteSince = name;
      }
    }
    await this.#try("shutdown", async (running) => {
      running.expectEnd();
      const reply = await this.#request("shutdown", {});
      if ("missing" in reply) return fail(`shutdown: ${reply.missing}`);
      if ("error" in reply) return fail(`shutdown was answered with the error ${rpcErrorText(reply.error)}`);
      return this.#endOf(running, "after shutdown");
    });
    this.#add("other version", await this.#tryOtherVersion());
    await this.#try("end of stdin", (running) => {
      running.expectEnd();
      running.process.program.stdin.end();
      return this.#endOf(running, "after its stdin was closed");
    });
    return manifest;
  }

  /** To be called when everything has ended. */
  verdicts(): readonly ContractVerdict[] {
    return [...this.#verdicts, ...this.#program.faultVerdicts("json-rpc", this.#answered)];
  }

  /** Ends the program. */
  async [Symbol.asyncDispose](): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.[Symbol.asyncDispose]();
    const line = running?.unfinishedLine?.toString("utf8");
    if (line !== undefined)
      this.#program.addFault("unfinished line", `a line without its end: ${shown(line)}`);
  }

  get #isUsable(): boolean {
    return this.#running?.fault === undefined && this.#running?.process.program.exit === undefined;
  }

  #add(name: string, finding: ContractResult): void {
    this.#verdicts.push({ name, protocol: "json-rpc", ...finding });
  }

  /** Runs a check on the program, or on a new one when that cannot be used any more. */
  async #try(name: string, check: (running: JsonRpcExtension) => Promise<ContractResult>): Promise<void> {
    if (this.#running === undefined || !this.#isUsable) await this.#initialize();
    const running = this.#running;
    const isUsable = running !== undefined && this.#isUsable;
    this.#add(name, isUsable ? await check(running) : skip("a new process did not answer initialize"));
  }

  async #request(method: string, params: object): Promise<Reply> {
    const { signal, timeoutMs, startupMs } = this.#subject;
    const ms = method === "initialize" ? startupMs : timeoutMs;
    const running = this.#running;
    if (running === undefined) return { missing: "the program was not started" };
    const late = (): McpvalsError =>
      running.process.error("extension/timeout", `did not answer ${method} within ${ms} ms`);
    using limit = abortAfter(ms, late, signal);
    try {
      return await running.request(method, params, limit.signal);
    } catch (error) {
      const { unfinishedLine: line } = running;
      const half = line === undefined ? "" : `; a line without its end: ${shown(line.toString("utf8"))}`;
      // Output that is buffered is the most frequent mistake of new extensions.
      const isSilent = limit.signal.aborted && method === "initialize" && line === undefined;
      const flush = isSilent ? "; does the program flush its stdout after each line?" : "";
      return { missing: `${this.#program.problemOf(error)}${half}${flush}` };
    }
  }

  /** Starts a new process and initializes it. */
  async #initialize(protocolVersion: string = extensionProtocolVersion): Promise<Reply> {
    await this[Symbol.asyncDispose]();
    const onStray = (problem: string): void => this.#program.addFault("answers once", problem);
    try {
      this.#running = await JsonRpcExtension.start({ ...this.#program.start, onStray });
    } catch (error) {
      return { missing: this.#program.problemOf(error) };
    }
    const reply = await this.#request("initialize", initializeParams(protocolVersion, this.#subject.config));
    this.#answered ||= !("missing" in reply);
    return reply;
  }

  #checkInitialize(reply: Reply): ExtensionManifest | undefined {
    const skipFrom = (index: number, reason: string): undefined => {
      for (const name of laterChecks.slice(index)) this.#add(name, skip(reason));
    };
    if (!("result" in reply)) {
      const needsConfig = Object.keys(this.#subject.config).length === 0;
      const hint = needsConfig ? "; it got no config, which it may need" : "";
      const message =
        "missing" in reply ? reply.missing : `answered with the error ${rpcErrorText(reply.error)}${hint}`;
      this.#add("initialize", fail(message));
      return skipFrom(0, "initialize was not answered with a result");
    }
    const { result } = reply;
    this.#add("initialize", pass("answered with a result"));
    this.#add("protocol version", versionFinding(result));
    this.#add("manifest", checkManifest(result));
    const read = readInitializeResult(result);
    if (!read.ok) return skipFrom(2, "the manifest cannot be read");
    this.#add("manifest file", compareManifests(read.manifest, this.#subject.manifest));
    return read.manifest;
  }

  async #tryUnknownMethod(): Promise<ContractResult> {
    const reply = await this.#request("mcpvals/noSuchMethod", {});
    if ("missing" in reply) return fail(`an unknown method: ${reply.missing}`);
    if ("result" in reply) return fail("an unknown method was answered with a result");
    if (reply.error["code"] === unknownMethodCode) return pass(`refused with ${unknownMethodCode}`);
    const text = rpcErrorText(reply.error);
    return fail(`an unknown method was answered with the error ${text}, not with ${unknownMethodCode}`);
  }

  async #tryOtherVersion(): Promise<ContractResult> {
    const reply = await this.#initialize("999.0.0");
    await this[Symbol.asyncDispose]();
    if ("error" in reply) return pass("another protocolVersion is refused");
    const what = "missing" in reply ? reply.missing : "it was answered with a result";
    return warn(`protocolVersion 999.0.0 should be refused with an error: ${what}`);
  }

  async #endOf({ process }: JsonRpcExtension, when: string): Promise<ContractResult> {
    const { signal, startupMs: endMs } = this.#subject;
    const hasEnded = await settlesWithin(process.ended, endMs);
    signal.throwIfAborted();
    if (!hasEnded || process.program.exit === undefined)
      return fail(`the program still runs ${endMs / 1000} seconds ${when}`);
    await this.#program.checkLeftovers(process);
    return process.program.exit.exitCode === 0
      ? pass(`it ends with exit code 0 ${when}`)
      : fail(`${when} the program ${formatExit(process.program.exit)}`);
  }
}

function versionFinding(result: Json): ContractResult {
  const version = isJsonObject(result) ? result["protocolVersion"] : undefined;
  return version === extensionProtocolVersion
    ? pass(extensionProtocolVersion)
    : fail(`protocolVersion is ${JSON.stringify(version) ?? "missing"}, not "${extensionProtocolVersion}"`);
}

async function tryArguments(execute: Execute, manifest: ExtensionManifest): Promise<ContractResult> {
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

function refusal(reply: Reply, what: string): ContractResult {
  if ("missing" in reply) return fail(`${what}: ${reply.missing}`);
  if ("error" in reply)
    return fail(`${what} was answered with the error ${rpcErrorText(reply.error)}, not with success: false`);
  const read = readOperationResult(reply.result);
  if (!read.ok) return fail(`${what} was answered with an invalid result: ${read.message}`);
  return read.result.success
    ? fail(`${what} was answered with success: true`)
    : pass("refused with success: false");
}
