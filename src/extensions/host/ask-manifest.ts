import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { ExtensionSpec, Json, JsonObject } from "../../core/formats/model.ts";
import type { Expander } from "../../core/templates/expand.ts";
import { withDeadline } from "../../process/deadline.ts";
import { baseEnvironment, inheritedEnvironment, mergeEnvironments } from "../../process/environment.ts";
import type { PreparedExtension } from "../operation-host.ts";
import { JsonRpcExtension } from "./json-rpc-extension.ts";

/** Longest wait for a manifest, in milliseconds. */
const defaultMs = 30_000;

export interface AskOptions {
  /** The environment of mcpvals itself. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables that were given for the run. */
  readonly given?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Replaces templates in settings and variables; absent: they are given as they are written. */
  readonly expander?: Expander;
  readonly timeoutMs?: number;
}

/**
 * The manifest of an extension: its `extension.yaml`, else what it answers to `initialize`, in its sandbox. Throws
 * McpvalsError `extension/…` when it breaks the protocol, and the signal's reason.
 */
export async function askManifest(
  extension: PreparedExtension,
  options: AskOptions,
): Promise<ExtensionManifest> {
  const { resolved, spec } = extension;
  if (resolved.manifest !== undefined) return resolved.manifest;
  const { expander, signal, timeoutMs = defaultMs } = options;
  const text = (template: string): string => expander?.text(template) ?? template;
  const place = { cwd: resolved.folder, env: extensionEnvironment(spec, options, text), read: [], write: [] };
  const program = await JsonRpcExtension.start({ extension, place, emit: () => 0 });
  try {
    const onTimeout = (): Error =>
      program.process.error("extension/timeout", `did not answer initialize in ${timeoutMs} ms`);
    const config = expander === undefined ? spec.config : expandConfig(spec.config, expander);
    return await withDeadline((within) => program.initialize(config, within), {
      ms: timeoutMs,
      signal,
      onTimeout,
    });
  } catch (error) {
    throw signal.aborted ? error : unknownProtocol(error);
  } finally {
    await program[Symbol.asyncDispose]();
  }
}

/** Settings with their templates replaced. */
export function expandConfig(config: JsonObject, { json }: Expander): JsonObject {
  return Object.fromEntries(Object.entries(config).map(([key, value]): [string, Json] => [key, json(value)]));
}

const answer = "It must answer initialize with one line of JSON-RPC on stdout.";
const oneShot =
  "A program that is started as PROGRAM action|check NAME --input FILE needs an extension.yaml with protocol: one-shot.";
const hints: Readonly<Record<string, string>> = {
  "extension/crashed": `See what it wrote on stderr. ${oneShot}`,
  "extension/timeout": `${answer} A program that buffers its stdout has to flush it after each line. ${oneShot}`,
};

/** How a program that does not know the protocol fails. */
const ignorant = new Set(["extension/crashed", "extension/timeout", "extension/protocol"]);

/** Adds to an error of a program without `extension.yaml` that it may not speak JSON-RPC; any other error stays as it is. */
export function unknownProtocol(error: unknown): unknown {
  if (!(error instanceof McpvalsError) || !ignorant.has(error.code)) return error;
  const { detail } = error.details;
  return new McpvalsError(
    error.code === "extension/timeout" ? error.code : "extension/start-failed",
    `${error.message}; it has no extension.yaml, so it must speak JSON-RPC`,
    {
      hint: hints[error.code] ?? `${answer} ${oneShot}`,
      ...(detail === undefined ? {} : { detail }),
      cause: error,
    },
  );
}

type Variables = Readonly<Record<string, string>>;

/**
 * The complete environment of an extension's process: the basic variables; without a sandbox also those of `env`, the
 * environment of mcpvals itself, that the eval passes on, and those that were given for the run; then those of the spec.
 * `text` replaces templates.
 */
export function extensionEnvironment(
  { env: named, inheritEnv = [], sandbox }: ExtensionSpec,
  { env, given = {} }: { readonly env: Variables; readonly given?: Variables },
  text: (template: string, name: string) => string,
): Variables {
  const own = Object.entries(named).map(([name, value]) => [name, text(value, name)] as const);
  const inherited =
    sandbox.kind === "none" ? [inheritedEnvironment(env, inheritEnv), given] : [baseEnvironment(env)];
  return mergeEnvironments([...inherited, Object.fromEntries(own)]);
}
