import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { defaultSandbox } from "../src/model/sandbox.ts";
import type { ExtensionSpec } from "../src/model/task.ts";
import type { ExtensionStep } from "../src/model/step.ts";
import { expanderOf } from "../src/templates/expand.ts";
import { createRecorder } from "../src/trace/recorder.ts";
import { createRedactor } from "../src/trace/redact.ts";
import { openTrialExtensions } from "../src/extensions/host/trial-extensions.ts";
import { noSandbox } from "../src/sandbox/sandboxes.ts";
import { SchemaValidator } from "../src/graders/schema-validator.ts";
import { runStep } from "../src/steps/run-step.ts";
import { plainTrial } from "../test/support/step-context.ts";
import { openBenchJournal } from "./journal.ts";
import { inTurn, type Row } from "./measure.ts";

const calls = 1000;
const program = join(import.meta.dirname, "trivial-extension.ts");
const env = { PATH: process.env["PATH"] ?? "" };

/** Steps of an extension one after the other (validated, recorded, journalled) against a client that only writes and reads the lines. */
export async function extensionCalls(): Promise<readonly Row[]> {
  await using hosted = openHosted();
  await using bare = await openBare();
  const { ours, floor } = await inTurn(
    15,
    () => msPerCall(hosted.call),
    () => msPerCall(bare.call),
  );
  return [
    {
      name: "1,000 operations of an extension",
      measured: `${ours.toFixed(2)} ms each (${(ours - floor).toFixed(2)} ms more)`,
      floor: `bare client ${floor.toFixed(2)} ms each`,
      target: "at most 1 ms more",
      holds: ours - floor <= 1,
    },
  ];
}

async function msPerCall(call: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  for (let index = 0; index < calls; index++) await call();
  return (performance.now() - started) / calls;
}

type Caller = AsyncDisposable & { readonly call: () => Promise<void> };

function openHosted(): Caller {
  const journal = openBenchJournal();
  const workspace = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const emit = createRecorder("t1", {
    redact: createRedactor([{ name: "KEY", value: "a-secret-of-the-bench" }]),
    now: () => performance.timeOrigin + performance.now(),
    onBroken: (error) => {
      throw error;
    },
    events: [],
    onEvent: (event, json) => journal.append(event, json),
  });
  const validator = new SchemaValidator();
  const bare = {
    ...plainTrial("bench"),
    dir: workspace,
    workspace,
    validateSchema: validator.validate.bind(validator),
  };
  const spec: ExtensionSpec = {
    alias: "x",
    package: program,
    dir: workspace,
    config: {},
    env: {},
    sandbox: defaultSandbox,
  };
  const ref = { kind: "path", name: program, path: program } as const;
  const resolved = { package: program, ref, folder: import.meta.dirname, program };
  const extensions = openTrialExtensions({
    specs: { x: spec },
    prepared: { notes: [], of: () => ({ spec, resolved, sandbox: noSandbox }) },
    trial: bare,
    expander: expanderOf(undefined),
    env,
    emit,
  });
  const context = {
    phase: "verify",
    sessions: [],
    emit,
    signal: new AbortController().signal,
    scope: undefined,
    form: "task",
    trial: { ...bare, extensions },
  } as const;
  const step: ExtensionStep = {
    type: "extension",
    id: "s",
    timeoutMs: 60_000,
    extension: "x",
    operation: "add",
    args: { a: 1 },
  };
  return {
    async call() {
      const { outcome, error } = await runStep(step, context);
      if (outcome !== "passed") throw new Error(`the step ended as ${outcome}`, { cause: error });
    },
    async [Symbol.asyncDispose]() {
      await extensions[Symbol.asyncDispose]();
      await validator[Symbol.asyncDispose]();
      await journal.close();
      rmSync(workspace, { recursive: true, force: true });
    },
  };
}

async function openBare(): Promise<Caller> {
  const child = spawn(process.execPath, [program], { env, stdio: ["pipe", "pipe", "ignore"] });
  let id = 0;
  let answered = (_line: string): void => undefined;
  createInterface({ input: child.stdout }).on("line", (line) => answered(line));
  const request = (method: string, params: object): Promise<string> => {
    id += 1;
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return new Promise((resolve) => (answered = resolve));
  };
  const dir = tmpdir();
  const context = { workdir: dir, workspace: dir, phase: "verify", env: {}, timeout: "60s" };
  const params = { operation: "add", args: { a: 1, b: 1 }, context };
  await request("initialize", { protocolVersion: "0.0.1" });
  return {
    async call() {
      const answer = await request("execute", params);
      if (!answer.includes('"success":true')) throw new Error(answer);
    },
    [Symbol.asyncDispose]: () => Promise.resolve(void child.kill()),
  };
}
