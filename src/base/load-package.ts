import { McpvalsError } from "./error.ts";

/** A package that is installed only where it is needed. */
export interface OptionalPackage {
  readonly name: string;
  /** What needs it. */
  readonly user: string;
  /** Those that it needs beside itself. */
  readonly beside?: readonly string[];
  /** Of the error where it is not installed. */
  readonly code: "model/no-package" | "export/no-package";
}

/** Loads an optional package. Throws McpvalsError with the code when it is not installed. */
export async function loadPackage<P>(
  { name, user, code, beside = [] }: OptionalPackage,
  load: () => Promise<P>,
): Promise<P> {
  try {
    return await load();
  } catch (error) {
    // A package that is there and of which something else is missing says so itself.
    if (!(error instanceof Error) || !error.message.includes(`'${name}'`)) throw error;
    throw new McpvalsError(code, `${user} needs the package ${name}, which is not installed`, {
      cause: error,
      hint: `Install it beside mcpvals: npm install --save-dev ${[name, ...beside].join(" ")}`,
    });
  }
}
