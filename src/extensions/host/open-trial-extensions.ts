import { McpvalsError } from "../../core/errors/error.ts";
import type { OperationResult } from "../../core/formats/extension/protocol.ts";
import type { ExtensionSpec } from "../../core/formats/model.ts";
import type { OperationCall, OperationHost } from "../operation-host.ts";
import { TrialExtension, type TrialSurroundings } from "./trial-extension.ts";

/** The extensions of one trial; ends their processes when it is disposed of. */
export interface TrialExtensions extends OperationHost, AsyncDisposable {}

export interface TrialExtensionsOptions extends TrialSurroundings {
  /** By what steps name them. */
  readonly specs: Readonly<Record<string, ExtensionSpec>>;
}

/**
 * The extensions of one trial: each has at most one process at a time, which is started when the first operation needs it.
 * Disposing throws what an extension did wrong that no step was told of.
 */
export function openTrialExtensions({ specs, ...surroundings }: TrialExtensionsOptions): TrialExtensions {
  return new OpenExtensions(specs, surroundings);
}

class OpenExtensions implements TrialExtensions {
  readonly #specs: Readonly<Record<string, ExtensionSpec>>;
  readonly #surroundings: TrialSurroundings;
  readonly #open = new Map<string, TrialExtension>();

  constructor(specs: Readonly<Record<string, ExtensionSpec>>, surroundings: TrialSurroundings) {
    this.#specs = specs;
    this.#surroundings = surroundings;
  }

  async execute(call: OperationCall, signal: AbortSignal): Promise<OperationResult> {
    return this.#find(call.extension).execute(call, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = await Promise.allSettled(
      [...this.#open.values()].map((each) => each[Symbol.asyncDispose]()),
    );
    const broken = ended.find((each) => each.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }

  #find(alias: string): TrialExtension {
    const known = this.#open.get(alias);
    if (known !== undefined) return known;
    const spec = Object.hasOwn(this.#specs, alias) ? this.#specs[alias] : undefined;
    if (spec === undefined) {
      throw new McpvalsError("task/extension", `the task has no extension that is named "${alias}"`);
    }
    const opened = new TrialExtension(this.#surroundings.prepared.of(spec), this.#surroundings);
    this.#open.set(alias, opened);
    return opened;
  }
}
