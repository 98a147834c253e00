import type { KeyPath } from "../key-path.ts";
import type { PortableTask, Requirement } from "../model.ts";

/** The parts of a task whose steps are lists. */
export type LegacyPhase = "setup" | "verify" | "cleanup";

/** A step as its file has it, before its body is read. */
export interface RawStep {
  readonly phase: LegacyPhase;
  /** What templates call it when they mean its outputs. */
  readonly id: string;
  readonly type: string;
  readonly body: unknown;
  /** Where the body stands. */
  readonly path: KeyPath;
}

/** What an alias in a step's type stands for. */
export interface Alias {
  readonly kind: "extension" | "server";
  /** Its name in the eval. */
  readonly name: string;
}

type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** A task of either form, read as far as both are alike. */
export interface LegacyForm {
  readonly format: Exclude<PortableTask["format"], "mcp-eval/v1">;
  readonly metadata: Optional<{
    name: string;
    description: string;
    difficulty: string;
    labels: Readonly<Record<string, string>>;
    parallel: boolean;
    runs: number;
  }>;
  /** In milliseconds. */
  readonly limits: Optional<{ timeout: number; cleanupTimeout: number }>;
  readonly requires: readonly Requirement[];
  readonly aliases: ReadonlyMap<string, Alias>;
  readonly prompt: Optional<{ inline: string; file: string }> & { readonly path: KeyPath };
  /** Of all phases, in the order of the file. */
  readonly steps: readonly RawStep[];
}
