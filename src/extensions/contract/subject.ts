import { shortened } from "../../base/visible-text.ts";
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import formats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { jsonDifference } from "../../expect/json-difference.ts";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { didYouMean } from "../../base/did-you-mean.ts";
import type { ExtensionManifest, ExtensionProtocol } from "../manifest.ts";
import { type OperationContext, readInitializeResult } from "../protocol.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { defaultSandbox } from "../../model/sandbox.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { processLister } from "../../process/process-tree.ts";
import { ProgramOutput } from "../../process/program-output.ts";
import { spawnProcess } from "../../process/spawn.ts";
import { noSandbox } from "../../sandbox/sandboxes.ts";
import type { ExtensionProcess, ProcessStart } from "../host/extension-process.ts";
import { type ExtensionPhase, extensionPhases } from "../../model/extension.ts";

/** The outcome of a check. `skip`: it could not be tried, and the message says why. */
export interface ContractResult {
  readonly outcome: "pass" | "fail" | "warn" | "skip";
  readonly message: string;
}

export const pass = (message: string): ContractResult => ({ outcome: "pass", message });
export const fail = (message: string): ContractResult => ({ outcome: "fail", message });
export const warn = (message: string): ContractResult => ({ outcome: "warn", message });
export const skip = (message: string): ContractResult => ({ outcome: "skip", message });

export interface ContractVerdict extends ContractResult {
  /** Name of the check, such as `unknown operation`. */
  readonly name: string;
  readonly protocol: ExtensionProtocol;
}

/** The program that is tried. */
export interface Subject {
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute folder that it starts in, and that it gets as its working folder. */
  readonly cwd: string;
  /** Its complete environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Settings for `initialize`. */
  readonly config: JsonObject;
  /** Its `extension.yaml`, to be compared. */
  readonly manifest: ExtensionManifest | undefined;
  /** Longest wait for each answer, in milliseconds. */
  readonly timeoutMs: number;
  /** Longest wait for the answer to `initialize`, the start of the process included, and for its end, in milliseconds. */
  readonly startupMs: number;
  readonly signal: AbortSignal;
}

/** Faults that can happen whatever is requested; each is a check, with its message when there was none. */
const faultChecks = {
  stdout: "nothing but messages on stdout",
  "unfinished line": "every line had its end",
  logs: "logs are valid notifications, and not too many",
  "answer size": "no answer over 10 MiB",
  "answers once": "every request was answered once",
  leftovers: "no process that it started outlived it",
} as const;

type FaultName = keyof typeof faultChecks;

/** One-shot programs have neither lines nor logs. */
const oneShotFaults: ReadonlySet<string> = new Set<FaultName>(["stdout", "answer size", "leftovers"]);
/** How many faults of one check are shown. */
const maxShown = 3;
/** Marks the environment of a program, so that the processes that it leaves behind can be found. */
const markerName = "MCPVALS_CONTRACT";
/** How long `ps` may take, in milliseconds. */
const psMs = 2000;
/** An operation that no extension has. */
export const unknownOperation = "mcpvals-no-such-operation";

/** The program that is tried, as the host starts it. Faults of all of its processes are collected. */
export class SubjectProgram {
  readonly start: Omit<ProcessStart, "protocol"> & { readonly args: readonly string[] };
  readonly #subject: Subject;
  readonly #marker = randomUUID();
  readonly #faults = new Map<FaultName, Set<string>>();

  constructor(subject: Subject) {
    const { command, args, cwd, env, config } = subject;
    const alias = basename(args.find((arg) => !arg.startsWith("-")) ?? command);
    this.#subject = subject;
    this.start = {
      extension: {
        spec: { alias, package: command, dir: cwd, config, env: {}, sandbox: defaultSandbox },
        resolved: {
          package: command,
          ref: { kind: "path", name: command, path: command },
          folder: cwd,
          program: command,
        },
        sandbox: noSandbox,
      },
      place: { cwd, env: { ...env, [markerName]: this.#marker }, read: [], write: [] },
      args,
      emit: (event) => {
        if (event.type === "extension.invalid_output") {
          const isLog = event.text.startsWith("{") && /^[^\n]*"method"\s*:\s*"log"[^\n]*$/.test(event.text);
          const log = "a log needs a message and a level, one of debug, info, warn, error";
          this.addFault(
            isLog ? "logs" : "stdout",
            `${isLog ? log : "unexpected output"}: ${shown(event.text)}`,
          );
        } else if (event.type === "extension.output_omitted" && event.stream === "log") {
          this.addFault("logs", `${event.count} logs over the limit of one process were not recorded`);
        }
        return 0;
      },
    };
  }

  addFault(name: FaultName, message: string): void {
    const messages = this.#faults.get(name) ?? new Set();
    this.#faults.set(name, messages.add(message));
  }

  /** `answered`: whether the program ever did; the absence of faults means nothing otherwise. */
  faultVerdicts(protocol: ExtensionProtocol, answered: boolean): readonly ContractVerdict[] {
    const names = (Object.keys(faultChecks) as FaultName[]).filter(
      (name) => protocol === "json-rpc" || oneShotFaults.has(name),
    );
    return names.map((name) => {
      const messages = [...(this.#faults.get(name) ?? [])];
      const more = messages.length - maxShown;
      const first = [...messages.slice(0, maxShown), ...(more > 0 ? [`and ${more} more`] : [])];
      if (first.length > 0) return { name, protocol, ...fail(first.join("; ")) };
      return { name, protocol, ...(answered ? pass(faultChecks[name]) : skip("the program never answered")) };
    });
  }

  /** Adds a fault when a program that has ended by itself left processes behind. */
  async checkLeftovers({ program }: ExtensionProcess): Promise<void> {
    const { stdout, pid } = program;
    const isHeld = !stdout.closed && !stdout.readableEnded;
    if (program.exit === undefined || (!isHeld && (await program.release()))) return;
    const lister = processLister();
    const left = (await lister.list()).filter(
      (each) =>
        each.pid !== pid &&
        (each.group === pid || lister.carries(each.pid, `${markerName}=${this.#marker}`) === true),
    );
    if (left.length === 0 && !isHeld) return;
    const pids = left.map(({ pid }) => String(pid));
    const who = pids.length === 0 ? "a process" : await describeProcesses(pids, this.#subject.env["PATH"]);
    this.addFault("leftovers", `outlived the program${isHeld ? ", and holds its stdout" : ""}: ${who}`);
  }

  /** Why the program cannot be used any more, for a verdict; faults that have a check of their own are added there too. */
  problemOf(error: unknown): string {
    this.#subject.signal.throwIfAborted();
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details } = error;
    if (code === "extension/answer-too-large") this.addFault("answer size", message);
    const { detail } = details;
    return detail === undefined ? message : `${message}; its output ends with: ${detail.slice(-1500)}`;
  }

  /** The context of a call, as a host would give it. */
  contextOf(phase: ExtensionPhase = "setup"): OperationContext {
    const { cwd } = this.#subject;
    return { workdir: cwd, workspace: cwd, phase, env: {}, timeout: "30s" };
  }
}

/** The beginning of a text, in one line. */
export function shown(text: string): string {
  return JSON.stringify(shortened(text, 120));
}

/** Processes with their commands, or only their numbers where `ps` does not work. */
async function describeProcesses(pids: readonly string[], path: string | undefined): Promise<string> {
  const numbers = pids.join(", ");
  const args = ["-o", "pid=,args=", "-p", pids.join(",")];
  try {
    const env = path === undefined ? {} : { PATH: path };
    const ps = await spawnProcess({ command: "ps", args, env, cwd: "/" });
    const output = new ProgramOutput(10_000);
    output.attach(ps);
    await settlesWithin(ps.exited, psMs);
    await output.settle(100);
    await ps.stop({ stdinMs: 0, termMs: 0 });
    const lines = output.stdout.text.split("\n").map((line) => line.trim().slice(0, 200));
    return lines.filter((line) => line !== "").join("; ") || numbers;
  } catch {
    return numbers;
  }
}

/** Checks that the result of `initialize` is a manifest whose schemas can be used. */
export function checkManifest(result: Json): ContractResult {
  const read = readInitializeResult(result);
  if (!read.ok) return fail(read.message);
  const operations = isJsonObject(result) ? result["operations"] : undefined;
  const problems = Object.entries(isJsonObject(operations) ? operations : {}).flatMap(([name, declared]) => {
    const problem = schemaProblem(isJsonObject(declared) ? declared["params"] : undefined);
    return problem === undefined ? [] : [`${name}: ${problem}`];
  });
  const count = Object.keys(read.manifest.operations).length;
  return problems.length === 0
    ? pass(`${count} operation${count === 1 ? "" : "s"}, each with a usable schema`)
    : fail(problems.join("; "));
}

function schemaProblem(params: Json | undefined): string | undefined {
  if (!isJsonObject(params)) return "params is not a JSON Schema";
  if (params["type"] !== "object") return 'its params do not say type: "object"';
  try {
    compile(params);
    return undefined;
  } catch (error) {
    return `its params cannot be compiled: ${messageOf(error)}`;
  }
}

/** How many operations are called without arguments. */
const maxTried = 8;

/** Operations that reject a call without arguments, so that such a call has no effect. */
export function operationsWithRequiredArguments({ operations }: ExtensionManifest): readonly string[] {
  const found = Object.entries(operations).filter(([, { params }]) => {
    try {
      return compile(params)({}) !== true;
    } catch {
      return false; // reported by the check of the manifest
    }
  });
  return found.slice(0, maxTried).map(([name]) => name);
}

function compile({ $schema: _dialect, ...schema }: JsonObject): (value: Json) => unknown {
  const ajv = new Ajv2020({ strict: false, logger: false, ownProperties: true });
  formats.default(ajv);
  return ajv.compile(schema);
}

/** Compares the manifest that a program gives with its `extension.yaml`. */
export function compareManifests(
  given: ExtensionManifest,
  written: ExtensionManifest | undefined,
): ContractResult {
  if (written === undefined) return skip("there is no extension.yaml beside the program");
  const problems = [
    ...(["name", "version"] as const)
      .filter((key) => given[key] !== written[key])
      .map((key) => `${key} is ${given[key]}, but ${written[key]} in extension.yaml`),
    ...Object.keys(given.operations)
      .filter((name) => !Object.hasOwn(written.operations, name))
      .map((name) => {
        const near = didYouMean(name, Object.keys(written.operations));
        return `operation ${name} is not in extension.yaml${near === undefined ? "" : ` (${near} is)`}`;
      }),
    ...Object.entries(written.operations).flatMap(([name, { params, phases }]) => {
      const own = Object.hasOwn(given.operations, name) ? given.operations[name] : undefined;
      if (own === undefined) return [`operation ${name} is in extension.yaml only`];
      const difference = jsonDifference(own.params, params, "equal");
      return [
        ...(difference === undefined
          ? []
          : [difference.messageFor(`params of ${name}${difference.pointer}`)]),
        ...extensionPhases
          .filter((phase) => own.phases.includes(phase) !== phases.includes(phase))
          .map((phase) => {
            const where = own.phases.includes(phase) ? "in the program" : "in extension.yaml";
            return `${name} has the phase ${phase} only ${where}`;
          }),
      ];
    }),
  ];
  return problems.length === 0 ? pass("as extension.yaml says") : fail(problems.join("; "));
}
