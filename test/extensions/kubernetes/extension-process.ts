import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { resolve } from "node:path";
import { expect } from "vitest";

/** The built program, which starts several times as fast as its source. */
const program =
  process.env["MCPVALS_TEST_KUBERNETES"] ??
  resolve(import.meta.dirname, "../../../dist/extensions/kubernetes/main.js");

/** What an `execute` was answered with: a result, or an error of JSON-RPC, which has `code`. */
export interface Answered {
  readonly success?: boolean;
  readonly message?: string;
  readonly error?: string;
  readonly outputs?: Readonly<Record<string, string>>;
  readonly code?: number;
}

export interface RunOptions {
  readonly phase?: "setup" | "verify" | "cleanup";
  readonly timeout?: string;
  readonly workspace?: string;
}

/** The extension's process, spoken to over its pipes. */
export interface ExtensionProcess extends AsyncDisposable {
  run(operation: string, args?: unknown, options?: RunOptions): Promise<Answered>;
  request(method: string, params?: unknown): Promise<unknown>;
  /** Messages that it logged. */
  readonly logs: readonly string[];
}

export interface ProcessOptions {
  readonly config?: object;
  readonly env?: Readonly<Record<string, string>>;
  /** The task's folder. */
  readonly workdir: string;
}

/** Starts and initialises it. Throws with what it says when it does not want to. */
export async function startExtension({
  config = {},
  env = {},
  workdir,
}: ProcessOptions): Promise<ExtensionProcess> {
  const child = spawn(process.execPath, [program], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const logs: string[] = [];
  const waiting = new Map<number, (message: { result?: unknown; error?: unknown }) => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line) as {
      id?: number;
      result?: unknown;
      error?: unknown;
      params?: { message: string };
    };
    if (message.id === undefined) logs.push(message.params?.message ?? "");
    else waiting.get(message.id)?.(message);
  });
  let id = 0;
  const request = (method: string, params: unknown = {}): Promise<unknown> =>
    new Promise((done, fail) => {
      id += 1;
      child.once("close", () => fail(new Error(`the extension ended during ${method}`)));
      waiting.set(id, ({ result, error }) => done(result ?? error));
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  child.setMaxListeners(0);
  const started = (await request("initialize", { protocolVersion: "0.0.1", config })) as { message?: string };
  if (started.message !== undefined) {
    await end(child);
    throw new Error(started.message);
  }
  return {
    logs,
    request,
    run: async (operation, args = {}, { phase = "setup", timeout = "20s", workspace = workdir } = {}) =>
      (await request("execute", {
        operation,
        args,
        context: { workdir, workspace, phase, env: {}, timeout },
      })) as Answered,
    [Symbol.asyncDispose]: () => end(child),
  };
}

async function end(child: ChildProcess): Promise<void> {
  const closed = new Promise((done) => child.once("close", done));
  child.stdin?.end();
  await closed;
}

/** What a message contains, or matches; nothing in particular by default. */
type Expected = string | RegExp;

function matching(expected: Expected): unknown {
  return typeof expected === "string" ? expect.stringContaining(expected) : expect.stringMatching(expected);
}

/** Expects success, with these outputs if they are given. */
export async function passes(
  answer: Promise<Answered>,
  message: Expected = "",
  outputs?: object,
): Promise<void> {
  const answered = await answer;
  expect(answered).toMatchObject({ success: true, ...(outputs && { outputs }) });
  if (message !== "") expect(answered.message).toEqual(matching(message));
}

/** Expects a finding. */
export async function fails(answer: Promise<Answered>, message: Expected = ""): Promise<void> {
  expect(await answer).toMatchObject({ success: false, message: matching(message) });
}

/** Expects an error of JSON-RPC: it cannot be known whether what was asked holds. */
export async function isError(answer: Promise<Answered>, message: Expected = ""): Promise<void> {
  expect(await answer).toEqual({ code: -32000, message: matching(message) });
}
