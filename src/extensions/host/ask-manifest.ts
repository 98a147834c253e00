import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import type { Expander } from "../../core/templates/expand.ts";
import { withDeadline } from "../../process/deadline.ts";
import type { PreparedExtension } from "../prepared-extensions.ts";
import { extensionEnvironment } from "./extension-environment.ts";
import { JsonRpcExtension } from "./json-rpc-extension.ts";
import { unknownProtocol } from "./unknown-protocol.ts";

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
