import { parseArgs } from "node:util";
import type { ExtensionManifest } from "../core/formats/extension/manifest.ts";
import type { OperationResult } from "../core/formats/extension/protocol.ts";
import { errorText } from "./error-text.ts";
import type { ExtensionDefinition } from "./extension-definition.ts";
import { manifestText } from "./manifest-text.ts";
import type { Log } from "./operation-run.ts";
import { type OwnStdout, ownStdout } from "./own-stdout.ts";
import { objectOf, parse, runOneShot } from "./run-one-shot.ts";
import { serveJsonRpc } from "./serve-json-rpc.ts";
import { Session } from "./session.ts";

/** How long what is under way may take once the program has to end, in milliseconds. */
const workMs = 600;
/** How long `close` may take then, in milliseconds. */
const closeMs = 1500;
const signalExitCodes = { SIGTERM: 143, SIGINT: 130, SIGHUP: 129 } as const;

/** Is an extension's program, as its arguments say; see `Extension.serve`. Ends the process. */
export async function serve<C, R>(
  manifest: ExtensionManifest,
  definition: ExtensionDefinition<C, R>,
): Promise<void> {
  const end = new ProgramEnd();
  const stdout = ownStdout((error) => end.come("the host reads no more", 0, error));
  const program: Program<C, R> = { manifest, definition, end, stdout };
  try {
    const code = await run(program, readArguments());
    await leave(end.code ?? code);
  } catch (error) {
    process.stderr.write(`${manifest.name}: ${errorText(error)}\n`);
    await leave(end.code || 1);
  }
}

interface Program<C, R> {
  readonly manifest: ExtensionManifest;
  readonly definition: ExtensionDefinition<C, R>;
  readonly end: ProgramEnd;
  readonly stdout: OwnStdout;
}

/** Knows when the program has to end, and with which exit code. */
class ProgramEnd {
  readonly #controller = new AbortController();
  code: number | undefined;

  constructor() {
    for (const [name, code] of Object.entries(signalExitCodes)) {
      process.once(name, () => this.come(`the program was asked to end (${name})`, code));
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  come(reason: string, code: number, cause?: Error): void {
    if (this.signal.aborted) return;
    this.code = code;
    this.#controller.abort(new Error(reason, { cause }));
  }

  /** Waits for work, or until it has had so many milliseconds since the end has come. */
  async wait(work: Promise<void>, ms: number): Promise<void> {
    const over = new Promise<void>((resolve) => {
      const start = (): void => void setTimeout(resolve, ms);
      if (this.signal.aborted) start();
      else this.signal.addEventListener("abort", start, { once: true });
    });
    await Promise.race([work, over]);
  }
}

function readArguments(): { readonly words: readonly string[]; readonly options: Options } {
  const { positionals, values } = parseArgs({
    options: { input: { type: "string" }, config: { type: "string" }, manifest: { type: "boolean" } },
    allowPositionals: true,
    // What a host may add later must not keep the program from answering as well as it can.
    strict: false,
  });
  const { input, config, manifest } = values;
  return {
    words: positionals,
    options: {
      input: typeof input === "string" ? input : undefined,
      config: typeof config === "string" ? config : undefined,
      manifest: manifest === true,
    },
  };
}

interface Options {
  readonly input: string | undefined;
  readonly config: string | undefined;
  readonly manifest: boolean;
}

async function run<C, R>(
  program: Program<C, R>,
  { words, options }: ReturnType<typeof readArguments>,
): Promise<number> {
  const [verb, operation] = words;
  if (options.manifest) {
    await program.stdout.write(manifestText(program.manifest));
    return 0;
  }
  if (verb === "action" || verb === "check") return oneShot(program, { verb, operation, ...options });
  if (verb === undefined) return jsonRpc(program, options.config);
  const { name } = program.manifest;
  throw new Error(
    `there is no ${verb}. Use ${name} without arguments, ${name} action|check NAME --input FILE, ${name} --config JSON or ${name} --manifest.`,
  );
}

async function oneShot<C, R>(
  { definition, end, stdout }: Program<C, R>,
  call: Parameters<typeof runOneShot>[1],
): Promise<number> {
  const session = new Session(definition, { log: logToStderr, signal: end.signal });
  let result: OperationResult | undefined;
  const keep = (given: OperationResult): void => {
    result = given;
  };
  await end.wait(runOneShot(session, call).then(keep), workMs + closeMs);
  if (result === undefined) throw new Error("the operation did not end when it was asked to");
  await stdout.write(`${JSON.stringify(result)}\n`);
  return result.success ? 0 : 1;
}

const logToStderr: Log = (level, message, data) => {
  process.stderr.write(`${level}: ${message}${data === undefined ? "" : ` ${JSON.stringify(data)}`}\n`);
};

async function jsonRpc<C, R>(
  { manifest, definition, end, stdout }: Program<C, R>,
  config: string | undefined,
): Promise<number> {
  const send = (message: object): Promise<void> => stdout.write(`${JSON.stringify(message)}\n`);
  const log: Log = (level, message, data) => {
    const params = { level, message, ...(data === undefined ? {} : { data }) };
    // A host that has gone is noticed when stdout is.
    send({ jsonrpc: "2.0", method: "log", params }).catch(() => undefined);
  };
  const session = new Session(definition, { log, signal: end.signal });
  if (config !== undefined) await session.open(objectOf(parse(config, "--config"), "--config"));
  // Who writes a config as an argument pipes its requests and is done, before they are answered.
  const onInputEnd = (): void => {
    if (config === undefined) end.come("the host has closed stdin", 0);
  };
  try {
    await end.wait(serveJsonRpc(manifest, session, { input: process.stdin, send, onInputEnd }), workMs);
  } finally {
    end.come("the host has ended the session", 0);
    await end.wait(session.close(), closeMs);
  }
  return 0;
}

/** Ends the process even if something that an operation left, such as a connection, would keep it. */
async function leave(code: number): Promise<void> {
  await new Promise<void>((resolve) => process.stderr.write("", () => resolve()));
  process.exit(code);
}
