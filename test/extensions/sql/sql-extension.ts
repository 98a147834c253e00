import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "vitest";
import type { OperationResult } from "../../../src/extensions/protocol.ts";
import type { JsonObject } from "../../../src/base/json.ts";
import { root } from "../../support/cli.ts";

/** An answer: a result, or the error that says that the environment is broken. */
export interface Answer {
  readonly result?: OperationResult;
  readonly error?: { readonly code: number; readonly message: string };
}

export interface CallOptions {
  readonly phase?: "setup" | "verify" | "cleanup";
  /** A Go duration. */
  readonly timeout?: string;
}

/** An answer that is a finding; a text is its whole message. */
export function failed(message: string | RegExp): unknown {
  const text: unknown = typeof message === "string" ? message : expect.stringMatching(message);
  return { result: expect.objectContaining({ success: false, message: text }) };
}

/** An answer that is an error of the environment. */
export function broken(message: RegExp): unknown {
  return { error: { code: -32_000, message: expect.stringMatching(message) } };
}

/** The extension as a process, with a folder that is the task's, and one that is the trial's. */
export interface SqlExtension extends AsyncDisposable {
  readonly pid: number;
  readonly workdir: string;
  readonly workspace: string;
  /** The same process with other folders, and with a database of its own for steps that name none. */
  other(url: string): Promise<SqlExtension>;
  call(operation: string, args: JsonObject, options?: CallOptions): Promise<Answer>;
  /** What it gives when it goes well; rejects otherwise. */
  outputs(operation: string, args: JsonObject, options?: CallOptions): Promise<JsonObject>;
  /** All that it has written, to stdout and to stderr. */
  written(): string;
  stderr(): string;
  /** Leaves it without a host, as when that has died, and gives its exit code. */
  abandon(): Promise<number | null>;
  /** Asks it to end, and gives its exit code. */
  shutdown(): Promise<number | null>;
}

/** Starts the built program of the extension. */
export async function startSql(config: JsonObject): Promise<SqlExtension> {
  const folders = await newFolders();
  const child = spawn(process.execPath, [join(root, "dist/extensions/sql/main.js")], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "" },
  });
  const waiting = new Map<number, { done(answer: Answer): void; fail(error: Error): void }>();
  let written = "";
  let stderr = "";
  let last = 0;
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
    written += chunk.toString();
  });
  createInterface({ input: child.stdout }).on("line", (line) => {
    written += line;
    const message = JSON.parse(line) as Answer & { id?: number };
    if (message.id !== undefined) waiting.get(message.id)?.done(message);
  });
  const ended = new Promise<number | null>((done) => {
    child.on("close", (code) => {
      for (const waiter of waiting.values()) waiter.fail(new Error(`it ended with ${code}: ${stderr}`));
      done(code);
    });
  });
  const request = (method: string, params: object): Promise<Answer> => {
    last += 1;
    const id = last;
    const answered = new Promise<Answer>((done, fail) => waiting.set(id, { done, fail }));
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return answered.finally(() => waiting.delete(id));
  };
  const shutdown = async (): Promise<number | null> => {
    await request("shutdown", {});
    return ended;
  };
  const started = await request("initialize", { protocolVersion: "0.0.1", config });
  if (started.error !== undefined) throw new Error(started.error.message);
  const view = (folders: Folders, url?: string): Omit<SqlExtension, typeof Symbol.asyncDispose> => {
    const call: SqlExtension["call"] = async (operation, args, { phase, timeout = "20s" } = {}) => {
      const usual = operation === "execute" ? "setup" : "verify";
      const context = { ...folders, phase: phase ?? usual, env: {}, timeout };
      const named = url === undefined || "connection" in args || "url" in args ? args : { ...args, url };
      const { result, error } = await request("execute", { operation, args: named, context });
      return error === undefined ? { result: result ?? { success: false } } : { error };
    };
    return {
      ...folders,
      pid: child.pid ?? 0,
      call,
      outputs: async (operation, args, options) => {
        const { result, error } = await call(operation, args, options);
        if (result?.success === true) return result.outputs ?? {};
        throw new Error(error?.message ?? result?.message ?? result?.error);
      },
      written: () => written,
      stderr: () => stderr,
      abandon: () => {
        child.stdin.end();
        return ended;
      },
      shutdown,
      other: async (address) => {
        const others = await newFolders();
        return { ...view(others, address), [Symbol.asyncDispose]: () => remove(others) };
      },
    };
  };
  return {
    ...view(folders),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
      await remove(folders);
    },
  };
}

interface Folders {
  readonly workdir: string;
  readonly workspace: string;
}

async function newFolders(): Promise<Folders> {
  const [workdir, workspace] = await Promise.all([newFolder(), newFolder()]);
  return { workdir, workspace };
}

async function remove({ workdir, workspace }: Folders): Promise<void> {
  for (const folder of [workdir, workspace]) await rm(folder, { recursive: true, force: true });
}

function newFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "mcpvals-sql-"));
}
