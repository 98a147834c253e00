import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { ExtensionSpec, JsonObject } from "../../core/formats/model.ts";
import type { Expander } from "../../core/templates/expand.ts";
import { withDeadline } from "../../process/deadline.ts";
import { baseEnvironment, inheritedEnvironment, mergeEnvironments } from "../../process/environment.ts";
import type { PreparedExtension } from "../prepared-extensions.ts";
import { JsonRpcExtension } from "./json-rpc-extension.ts";

/** Longest that an extension may take to say what it offers, in milliseconds. */
const defaultMs = 30_000;

export interface AskOptions {
  /** The environment of mcpvals itself. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables that were given for the run. */
  readonly given?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Replaces those templates that have a value before any trial; absent: settings are given as they are written. */
  readonly expander?: Expander;
  /** Absolute folder that it starts in. Default: its own. */
  readonly cwd?: string;
  readonly timeoutMs?: number;
}

/**
 * Says what an extension offers: what its `extension.yaml` has, else what it answers to `initialize`, in its sandbox. Throws
 * McpvalsError `extension/…` when it does not answer as it must, and the signal's reason.
 */
export async function askManifest(
  extension: PreparedExtension,
  options: AskOptions,
): Promise<ExtensionManifest> {
  const { resolved, spec } = extension;
  if (resolved.manifest !== undefined) return resolved.manifest;
  const { expander, cwd = resolved.folder, signal, timeoutMs = defaultMs } = options;
  const text = (template: string): string => expander?.text(template) ?? template;
  const place = { cwd, env: extensionEnvironment(spec, options, text), read: [], write: [] };
  const program = await JsonRpcExtension.start({ extension, place, emit: () => 0 });
  try {
    const onTimeout = (): Error =>
      program.error("extension/timeout", `did not answer initialize in ${timeoutMs} ms`);
    return await withDeadline((within) => program.initialize(configOf(spec.config, expander), within), {
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

function configOf(config: JsonObject, expander: Expander | undefined): JsonObject {
  if (expander === undefined) return config;
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [key, expander.json(value)] as const),
  );
}

const answer = "Let it answer initialize with one line of JSON-RPC on stdout.";
const oneShot =
  "One that is started as PROGRAM action|check NAME --input FILE needs an extension.yaml with protocol: one-shot.";
/** What is most likely the matter. */
const hints: Readonly<Record<string, string>> = {
  "extension/crashed": `See what it wrote on stderr. ${oneShot}`,
  "extension/timeout": `${answer} What a program prints may be held back: flush stdout after each line. ${oneShot}`,
};

/** What a program does that does not know the protocol: it ends, keeps silent, or answers something else. */
const strange = new Set(["extension/crashed", "extension/timeout", "extension/protocol"]);

/** The error for an extension without `extension.yaml` that does not speak JSON-RPC either; any other stays as it is. */
export function unknownProtocol(error: unknown): unknown {
  if (!(error instanceof McpvalsError) || !strange.has(error.code)) return error;
  const { detail } = error.details;
  return new McpvalsError(
    error.code === "extension/timeout" ? error.code : "extension/start-failed",
    `${error.message}; it has no extension.yaml, so that it must speak JSON-RPC`,
    {
      hint: hints[error.code] ?? `${answer} ${oneShot}`,
      ...(detail === undefined ? {} : { detail }),
      cause: error,
    },
  );
}

type Variables = Readonly<Record<string, string>>;

/**
 * The complete environment of an extension's process. As with the processes of steps, it is what a program needs to work at
 * all, what the eval passes on of `env`, the environment of mcpvals itself, and what was given for the run; in a
 * sandbox only the first. What the spec names comes on top. `text` replaces templates.
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
