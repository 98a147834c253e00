import type { OperationResult } from "../core/formats/extension/protocol.ts";
import type { TrialExtensions, TrialExtensionsOptions } from "../extensions/host/open-trial-extensions.ts";
import type { OperationCall } from "../extensions/operation-host.ts";

/** The extensions of a trial; what runs them is loaded with the first operation, since most trials have none. */
export class LazyExtensions implements TrialExtensions {
  readonly #options: TrialExtensionsOptions;
  #opened: Promise<TrialExtensions> | undefined;

  constructor(options: TrialExtensionsOptions) {
    this.#options = options;
  }

  async execute(call: OperationCall, signal: AbortSignal): Promise<OperationResult> {
    this.#opened ??= open(this.#options);
    return (await this.#opened).execute(call, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#opened)?.[Symbol.asyncDispose]();
  }
}

async function open(options: TrialExtensionsOptions): Promise<TrialExtensions> {
  const { openTrialExtensions } = await import("../extensions/host/open-trial-extensions.ts");
  return openTrialExtensions(options);
}
