import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Json } from "../../../src/base/json.ts";
import { root } from "../../support/cli.ts";
import { sampleExtension } from "../../support/programs.ts";

export interface ProgramEnd {
  readonly code: number | null;
  readonly stdout: readonly Json[];
  readonly stderr: string;
}

/** A running program of the sample extension, which tests speak with as they like. */
export class Program {
  readonly child: ChildProcess;
  readonly ended: Promise<ProgramEnd>;
  readonly #messages: Json[] = [];
  readonly #waiting = new Set<() => void>();
  #stderr = "";

  constructor(args: readonly string[] = [], cwd: string = root) {
    this.child = spawn(process.execPath, [sampleExtension, ...args], {
      cwd,
      stdio: ["pipe", "pipe", "pipe"],
    });
    const { stdin, stdout, stderr } = this.child;
    if (stdin === null || stdout === null || stderr === null) throw new Error("pipes were asked for");
    stdin.on("error", () => undefined);
    createInterface({ input: stdout }).on("line", (line) => {
      this.#messages.push(readLine(line));
      this.#wake();
    });
    stderr.on("data", (chunk: Buffer) => {
      this.#stderr += chunk.toString("utf8");
      this.#wake();
    });
    this.ended = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("close", (code) => resolve({ code, stdout: this.#messages, stderr: this.#stderr }));
    });
  }

  write(text: string | Buffer): void {
    this.child.stdin?.write(text);
  }

  end(): void {
    this.child.stdin?.end();
  }

  /** Writes requests, one a line. */
  send(...requests: readonly Json[]): void {
    for (const request of requests) this.write(`${JSON.stringify(request)}\n`);
  }

  /** Waits until so many messages have come, and gives them. */
  async messages(count: number): Promise<readonly Json[]> {
    while (this.#messages.length < count) {
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
    return this.#messages;
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

/** What is not JSON is shown as it is, so that a test sees it. */
function readLine(line: string): Json {
  try {
    return JSON.parse(line) as Json;
  } catch {
    return line;
  }
}

export function initialize(config: Json = {}, id: Json = 1): Json {
  return { jsonrpc: "2.0", id, method: "initialize", params: { protocolVersion: "0.0.1", config } };
}

export function execute(id: Json, operation: string, more: Record<string, Json> = {}): Json {
  return { jsonrpc: "2.0", id, method: "execute", params: { operation, args: {}, context: {}, ...more } };
}

export function shutdown(id: Json): Json {
  return { jsonrpc: "2.0", id, method: "shutdown", params: {} };
}
