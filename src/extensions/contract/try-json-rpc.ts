import { type ExtensionManifest, extensionProtocolVersion } from "../../core/formats/extension/manifest.ts";
import { readInitializeResult } from "../../core/formats/extension/protocol.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import { checkManifest, compareManifests, type SessionCheck, sessionChecks } from "./session-checks.ts";
import {
  type ContractVerdict,
  fail,
  type Finding,
  pass,
  skip,
  type Subject,
  warn,
} from "./contract-report.ts";
import { Conversation, type Reply } from "./conversation.ts";
import { Faults, startProblem } from "./watched-process.ts";

/** How long a program may take to end, in milliseconds. */
const endMs = 5000;
/** Checks after `initialize`, for a program that cannot be asked any more. */
const later = [
  "protocol version",
  "manifest",
  "manifest file",
  ...sessionChecks.map(({ name }) => name),
  "shutdown",
  "other version",
  "end of stdin",
];

export interface JsonRpcOutcome {
  readonly verdicts: readonly ContractVerdict[];
  /** What the program says of itself, if it can be read. */
  readonly manifest: ExtensionManifest | undefined;
}

/** Tries a program that speaks JSON-RPC. Rejects only with the signal's reason. */
export async function tryJsonRpc(subject: Subject): Promise<JsonRpcOutcome> {
  const trial = new JsonRpcTrial(subject);
  const manifest = await trial.run();
  return { verdicts: trial.verdicts, manifest };
}

class JsonRpcTrial {
  readonly #subject: Subject;
  readonly #faults = new Faults();
  readonly #verdicts: ContractVerdict[] = [];
  #talk: Conversation | undefined;
  /** Why `execute` is not tried any more. */
  #mute: string | undefined;
  #answered = false;

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  get verdicts(): readonly ContractVerdict[] {
    return this.#verdicts;
  }

  /** Tries everything; gives what the program says of itself. */
  async run(): Promise<ExtensionManifest | undefined> {
    let manifest: ExtensionManifest | undefined;
    try {
      manifest = await this.#begin();
      if (manifest !== undefined) {
        for (const check of sessionChecks) await this.#session(check, manifest);
        await this.#tryOn("shutdown", (talk) => tryShutdown(talk));
        await this.#finish();
        await this.#tryOtherVersion();
        await this.#tryOn("end of stdin", (talk) => tryEndOfStdin(talk));
      }
    } finally {
      await this.#finish();
    }
    this.#verdicts.push(...this.#faults.verdicts("json-rpc", this.#answered));
    return manifest;
  }

  #tell(name: string, finding: Finding): void {
    this.#verdicts.push({ name, protocol: "json-rpc", ...finding });
  }

  /** Starts it for the first time; undefined when nothing more can be tried. */
  async #begin(): Promise<ExtensionManifest | undefined> {
    const reply = await this.#start();
    if (reply.kind !== "result") {
      this.#tell("initialize", fail(this.#whyNot(reply)));
      for (const name of later) this.#tell(name, skip("initialize was not answered with a result"));
      return undefined;
    }
    this.#tell("initialize", pass("answered with a result"));
    this.#tell("protocol version", versionFinding(reply.result));
    this.#tell("manifest", checkManifest(reply.result));
    const read = readInitializeResult(reply.result);
    if (read.ok) {
      this.#tell("manifest file", compareManifests(read.manifest, this.#subject.manifest));
      return read.manifest;
    }
    for (const name of later.slice(2)) this.#tell(name, skip("the manifest cannot be read"));
    return undefined;
  }

  #whyNot(reply: Exclude<Reply, { kind: "result" }>): string {
    if (reply.kind === "none") return reply.message;
    const bare = Object.keys(this.#subject.config).length === 0;
    return `answered with the error ${reply.text}${bare ? "; it was given no config, which it may need" : ""}`;
  }

  async #session(check: SessionCheck, manifest: ExtensionManifest): Promise<void> {
    if (check.executes && this.#mute !== undefined) return this.#tell(check.name, skip(this.#mute));
    await this.#tryOn(check.name, async (talk) => {
      const finding = await check.try(talk, { manifest, folder: this.#subject.cwd });
      if (check.executes && !talk.isHealthy)
        this.#mute = `execute cannot be tried any more, see "${check.name}"`;
      return finding;
    });
  }

  /** Tries something on a process that answers, on a fresh one where the last does no more. */
  async #tryOn(name: string, attempt: (talk: Conversation) => Promise<Finding>): Promise<void> {
    if (this.#talk?.isHealthy !== true) {
      const reply = await this.#start();
      if (reply.kind !== "result") return this.#tell(name, skip("a fresh process did not answer initialize"));
    }
    if (this.#talk !== undefined) this.#tell(name, await attempt(this.#talk));
  }

  async #tryOtherVersion(): Promise<void> {
    const reply = await this.#start("999.0.0");
    await this.#finish();
    if (reply.kind === "error")
      return this.#tell("other version", pass("another protocolVersion is refused"));
    const what = reply.kind === "none" ? reply.message : "it was answered with a result";
    this.#tell("other version", warn(`protocolVersion 999.0.0 should be refused with an error: ${what}`));
  }

  /** Starts a fresh process and initialises it. */
  async #start(protocolVersion: string = extensionProtocolVersion): Promise<Reply> {
    await this.#finish();
    try {
      this.#talk = await Conversation.start(this.#subject, this.#faults);
    } catch (error) {
      this.#subject.signal.throwIfAborted();
      return { kind: "none", message: startProblem(error) };
    }
    const { config } = this.#subject;
    const settings = Object.keys(config).length === 0 ? {} : { config };
    const reply = await this.#talk.request("initialize", { protocolVersion, ...settings });
    this.#answered ||= reply.kind !== "none";
    return reply;
  }

  async #finish(): Promise<void> {
    const talk = this.#talk;
    this.#talk = undefined;
    await talk?.finish();
  }
}

function versionFinding(result: Json): Finding {
  const version = isJsonObject(result) ? result["protocolVersion"] : undefined;
  return version === extensionProtocolVersion
    ? pass(extensionProtocolVersion)
    : fail(`protocolVersion is ${JSON.stringify(version) ?? "missing"}, not "${extensionProtocolVersion}"`);
}

async function tryShutdown(talk: Conversation): Promise<Finding> {
  const reply = await talk.request("shutdown", {});
  if (reply.kind === "none") return fail(`shutdown: ${reply.message}`);
  if (reply.kind === "error") return fail(`shutdown was answered with the error ${reply.text}`);
  return endFinding(talk, "after shutdown");
}

async function tryEndOfStdin(talk: Conversation): Promise<Finding> {
  talk.process.stdin.end();
  return endFinding(talk, "after its stdin was closed");
}

async function endFinding(talk: Conversation, when: string): Promise<Finding> {
  if (!(await talk.endsWithin(endMs))) return fail(`the program still runs ${endMs / 1000} seconds ${when}`);
  return talk.process.exit?.exitCode === 0
    ? pass(`it ends with exit code 0 ${when}`)
    : fail(`${when} the program ${talk.process.howItEnded ?? "lives"}${talk.process.stderrTail}`);
}
