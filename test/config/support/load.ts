import { McpvalsError, type Diagnostic } from "../../../src/core/errors/error.ts";
import { loadConfig, type LoadConfigOptions, type LoadedConfig } from "../../../src/config/load-config.ts";

/** Loads a config with an empty environment. */
export function load(cwd: string, options: Partial<LoadConfigOptions> = {}): Promise<LoadedConfig> {
  return loadConfig({ cwd, environment: {}, ...options });
}

/** The error that loading gives. */
export async function failure(cwd: string, options: Partial<LoadConfigOptions> = {}): Promise<McpvalsError> {
  try {
    await load(cwd, options);
  } catch (error) {
    if (error instanceof McpvalsError) return error;
    throw error;
  }
  throw new Error("the config was accepted");
}

/** Everything that is wrong, as `FILE:LINE:COLUMN CODE MESSAGE`. */
export async function problems(cwd: string, options: Partial<LoadConfigOptions> = {}): Promise<string[]> {
  const error = await failure(cwd, options);
  return (error.details.diagnostics ?? []).map(describeDiagnostic);
}

function describeDiagnostic({ code, message, location }: Diagnostic): string {
  const { file, line, column } = location ?? { file: "nowhere" };
  return `${[file, line, column].filter((part) => part !== undefined).join(":")} ${code} ${message}`;
}
