import { McpvalsError, type Diagnostic } from "../../../src/base/error.ts";
import { load as loadSources, type LoadOptions } from "../../../src/formats/load.ts";
import type { LoadedConfig } from "../../../src/formats/assemble-eval.ts";
import type { Config } from "../../../src/formats/config/config-schema.ts";
import { folderOf } from "../../support/cli.ts";

export interface TestOptions extends Partial<LoadOptions> {
  /** The only source. */
  readonly source?: string | Config | undefined;
}

/** Loads with an empty environment. */
export function load(cwd: string, { source, ...options }: TestOptions = {}): Promise<LoadedConfig> {
  const sources = source === undefined ? [] : typeof source === "string" ? [source] : source;
  return loadSources({ sources, cwd, environment: {}, ...options });
}

/** The error that loading gives. */
export async function failure(cwd: string, options: TestOptions = {}): Promise<McpvalsError> {
  try {
    await load(cwd, options);
  } catch (error) {
    if (error instanceof McpvalsError) return error;
    throw error;
  }
  throw new Error("the config was accepted");
}

/** Everything that is wrong, as `FILE:LINE:COLUMN CODE MESSAGE`. */
export async function problems(cwd: string, options: TestOptions = {}): Promise<string[]> {
  const error = await failure(cwd, options);
  return (error.details.diagnostics ?? []).map(describeDiagnostic);
}

function describeDiagnostic({ code, message, location }: Diagnostic): string {
  const { file, line, column } = location ?? { file: "nowhere" };
  return `${[file, line, column].filter((part) => part !== undefined).join(":")} ${code} ${message}`;
}

/** Does the same in a folder of the given files. */
async function within<T>(files: Files, work: (cwd: string) => Promise<T>): Promise<T> {
  using folder = folderOf(files);
  return await work(folder.path);
}
type Files = Readonly<Record<string, unknown>>;
export const loadIn = (files: Files, options?: TestOptions): Promise<LoadedConfig> =>
  within(files, (cwd) => load(cwd, options));
export const failureIn = (files: Files, options?: TestOptions): Promise<McpvalsError> =>
  within(files, (cwd) => failure(cwd, options));
export const problemsIn = (files: Files, options?: TestOptions): Promise<string[]> =>
  within(files, (cwd) => problems(cwd, options));

/** A task of so many lines that mistakes in it can be told apart. */
export function task(name: string, { metadata = "", spec = "" } = {}): string {
  return `apiVersion: mcp-eval/v1
kind: Task
metadata:
  name: ${name}
${metadata}spec:
  prompt: Do ${name}.
  verify:
    - command: { run: "test -d ." }
${spec}`;
}
