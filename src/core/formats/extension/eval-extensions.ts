import type { SourceLocation } from "../../errors/error.ts";
import type { ExtensionSettings } from "../model.ts";
import type { JsonObject } from "../json.ts";
import { defaultSandbox, type SandboxSpec } from "../sandbox.ts";

/** What an eval says of extensions, and so gives to its tasks. */
export interface EvalExtensions {
  /** By the names that tasks use. */
  readonly declared: Readonly<Record<string, DeclaredExtension>>;
  /** For those that the eval does not declare. */
  readonly sandbox: SandboxSpec;
  /** Longest that an operation may take whose step says nothing, in milliseconds. */
  readonly timeoutMs: number;
  /** How all of them are fetched. */
  readonly settings: ExtensionSettings;
}

/** An extension of an eval. */
export interface DeclaredExtension {
  readonly package: string;
  /** Absolute folder that a relative package starts from. */
  readonly dir: string;
  /** The package without its version; of a path, the absolute one as far as that is known. */
  readonly name: string;
  readonly config: JsonObject;
  readonly env: Readonly<Record<string, string>>;
  readonly sandbox: SandboxSpec;
  /** Absent: that of all. */
  readonly timeoutMs?: number;
  readonly location?: SourceLocation;
}

/** Longest that an operation may take where nobody says anything. */
export const usualOperationMs = 300_000;

/** What there is without an eval, or with one that says nothing of extensions. */
export const noExtensions: EvalExtensions = {
  declared: {},
  sandbox: defaultSandbox,
  timeoutMs: usualOperationMs,
  settings: {},
};

/** The settings, when there are any. */
export function settingsOf(extensions: EvalExtensions | undefined): ExtensionSettings | undefined {
  const { settings } = extensions ?? noExtensions;
  return Object.keys(settings).length === 0 ? undefined : settings;
}
