import type { ExtensionRunFlags } from "./extension-options.ts";
import type { SourceFlags } from "./source-flags.ts";

/** The flags of `run` as commander gives them. */
export interface RunFlags extends SourceFlags, ExtensionRunFlags {
  readonly trials?: number;
  readonly concurrency?: number;
  readonly reporter?: readonly string[];
  readonly output?: string;
  readonly llm?: boolean;
  readonly timeout?: number;
  readonly bail?: boolean;
  readonly strict?: boolean;
}
