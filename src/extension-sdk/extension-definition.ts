import type * as z from "zod";
import type { Operation } from "./operation.ts";
import type { StartContext } from "./operation-run.ts";

/** An extension as its author writes it; `C` is its config, `R` what it keeps between operations. */
export interface ExtensionDefinition<C, R> {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  /** Settings, an object. Without it the config is handed to `open` as it came. */
  readonly config?: z.ZodType<C>;
  /** Runs once, before the first operation. When it throws, the host is told that the extension could not start. */
  readonly open?: (config: C, start: StartContext) => R | Promise<R>;
  /** Runs once, when the program ends in any regular way, if `open` has succeeded. */
  readonly close?: (resources: R) => void | Promise<void>;
  readonly operations: Readonly<Record<string, Operation<R>>>;
}
