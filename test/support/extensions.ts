import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { expect } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type { ExtensionManifest } from "../../src/extensions/manifest.ts";
import type { OperationResult } from "../../src/extensions/protocol.ts";
import { defaultSandbox } from "../../src/model/sandbox.ts";
import type { ExtensionSpec } from "../../src/model/task.ts";
import type { JsonObject } from "../../src/base/json.ts";
import { expanderOf } from "../../src/templates/expand.ts";
import type { EventBody, EventOf, Phase } from "../../src/model/event.ts";
import {
  type ExtensionTrial,
  openTrialExtensions,
  type TrialExtensions,
} from "../../src/extensions/host/trial-extensions.ts";
import type { PreparedExtension, PreparedExtensions } from "../../src/extensions/host/extension-process.ts";
import type { ProcessExit } from "../../src/process/spawn.ts";
import { noSandbox } from "../../src/sandbox/sandboxes.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { scopeOf } from "./step-context.ts";
import { keepIn } from "./records.ts";

const programs = resolve(import.meta.dirname, "../extensions/host/programs");

/** What the work throws, which must be one of our errors. */
export async function errorOf(work: Promise<unknown>): Promise<McpvalsError> {
  const error = await work.then(
    (value) => new Error(`it gave ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (error instanceof McpvalsError) return error;
  throw error;
}

/** Expects an error with this code; a text is its whole message. */
export async function expectError(
  work: Promise<unknown>,
  code: string,
  message: RegExp | string = /./,
): Promise<McpvalsError> {
  const error = await errorOf(work);
  expect(error).toMatchObject({
    code,
    message: typeof message === "string" ? message : expect.stringMatching(message),
  });
  return error;
}

/** Waits until there is no such process any more. */
export async function isGone(pid: number): Promise<void> {
  expect(pid).toBeGreaterThan(0);
  await expect
    .poll(
      () => {
        try {
          process.kill(pid, 0);
          return "alive";
        } catch {
          return "gone";
        }
      },
      { timeout: 5000 },
    )
    .toBe("gone");
}

interface FaultyStreams {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly env: Readonly<Record<string, string>>;
  readonly pid: number;
  exit(code: number): void;
  hasExited(): boolean;
}

let lastPid = 10_000_000;

/** Runs faulty.mjs inside this process instead of starting it; operations that need a process cannot be called. */
const inProcess: Sandbox = {
  kind: "none",
  check: () => Promise.resolve(),
  async start({ process: { env } }) {
    const { faulty } = (await import(join(programs, "faulty.mjs"))) as {
      faulty: (streams: FaultyStreams) => Promise<void>;
    };
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const exited = Promise.withResolvers<ProcessExit>();
    const pid = ++lastPid;
    let exit: ProcessExit | undefined;
    const end = (how: ProcessExit): void => {
      exit ??= how;
      for (const stream of [stdout, stderr]) stream.end();
      stdin.destroy();
      exited.resolve(exit);
    };
    const streams = { stdin, stdout, stderr, env, pid, hasExited: () => exit !== undefined };
    faulty({ ...streams, exit: (exitCode) => end({ exitCode, signal: null }) }).catch(() => undefined);
    return {
      pid,
      stdin,
      stdout,
      stderr,
      exited: exited.promise,
      get exit() {
        return exit;
      },
      brokenLimit: undefined,
      stop() {
        end({ exitCode: null, signal: "SIGTERM" });
        return Promise.resolve({ by: "SIGTERM", durationMs: 0, survivors: 0 });
      },
      release: () => Promise.resolve(exit !== undefined),
    };
  },
};

export interface ExtensionParts {
  readonly spec?: Partial<ExtensionSpec>;
  readonly manifest?: ExtensionManifest;
  readonly sandbox?: Sandbox;
}

/** An extension whose program is one of those in test/extensions/host/programs; faulty.mjs runs in this process by default. */
export function preparedExtension(
  program: string,
  { spec = {}, manifest, sandbox = program === "faulty.mjs" ? inProcess : noSandbox }: ExtensionParts = {},
): PreparedExtension {
  const path = join(programs, program);
  return {
    spec: {
      alias: "x",
      package: `./${program}`,
      dir: programs,
      config: {},
      env: {},
      sandbox: defaultSandbox,
      ...spec,
    },
    resolved: {
      package: `./${program}`,
      ref: { kind: "path", name: `./${program}`, path },
      folder: programs,
      program: path,
      ...(manifest === undefined ? {} : { manifest }),
    },
    sandbox,
  };
}

/** Extensions that are the given ones, whatever is asked for. */
export function preparedAs(extension: PreparedExtension): PreparedExtensions {
  return { notes: [], of: (spec) => ({ ...extension, spec }) };
}

export interface CallOptions {
  readonly args?: JsonObject;
  readonly phase?: Phase;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The extension `x` of a trial, with what it did. */
export interface Played extends AsyncDisposable {
  readonly extensions: TrialExtensions;
  readonly events: EventBody[];
  readonly workspace: string;
  call(operation: string, options?: CallOptions): Promise<OperationResult>;
  /** Lines that the program noted, one for each thing that was asked of it. */
  notes(): readonly string[];
  eventsOf<T extends EventBody["type"]>(type: T): Extract<EventBody, { type: T }>[];
}

/** Idle, it keeps no process alive. */
const validator = new SchemaValidator();

export interface PlayOptions extends ExtensionParts {
  readonly trial?: Partial<ExtensionTrial>;
  readonly env?: Readonly<Record<string, string>>;
  readonly given?: Readonly<Record<string, string>>;
}

/** Opens the extensions of a trial, of which there is one. Disposing throws what the extensions' end throws. */
export function play(program: string, { spec, trial, env, given = {}, ...more }: PlayOptions = {}): Played {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "mcpvals-play-")));
  const [dir, workspace] = [join(root, "task"), join(root, "workspace")];
  for (const folder of [dir, workspace]) mkdirSync(folder);
  const events: EventBody[] = [];
  const notes = join(root, "notes");
  const prepared = preparedExtension(program, {
    spec: { ...spec, env: { NOTES: notes, ...spec?.env } },
    ...more,
  });
  const extensions = openTrialExtensions({
    specs: { x: prepared.spec },
    prepared: preparedAs(prepared),
    trial: {
      dir,
      workspace,
      declared: { NAME: "value" },
      prompt: "",
      agent: undefined,
      validateSchema: (schema, value) => validator.validate(schema, value),
      releasePorts: () => Promise.resolve(),
      ...trial,
    },
    expander: expanderOf(scopeOf({ random: { id: "abc" } })),
    env: { PATH: process.env["PATH"] ?? "", ...env },
    given,
    emit: keepIn(events),
  });
  const none = new AbortController().signal;
  return {
    extensions,
    events,
    workspace,
    call: (operation, { args = {}, phase = "verify", timeoutMs = 20_000, signal = none } = {}) =>
      extensions.execute({ step: "s", extension: "x", operation, args, phase, timeoutMs }, signal),
    notes: () => (existsSync(notes) ? readFileSync(notes, "utf8").trim().split("\n") : []),
    eventsOf: <T extends EventBody["type"]>(type: T) =>
      events.filter((event): event is EventOf<T> & Extract<EventBody, { type: T }> => event.type === type),
    async [Symbol.asyncDispose]() {
      try {
        await extensions[Symbol.asyncDispose]();
      } finally {
        rmSync(root, { recursive: true, force: true, maxRetries: 3 });
      }
    },
  };
}
