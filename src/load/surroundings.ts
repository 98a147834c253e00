import { relative } from "node:path";
import type { EnvironmentVariables } from "./environment.ts";

/** What every door to an eval is given besides the files. */
export interface Surroundings {
  /** Absolute path of the folder that sources start from. */
  readonly cwd: string;
  readonly environment: EnvironmentVariables;
  /** Variables from the command line; they win over everything. */
  readonly overrides: EnvironmentVariables;
  /** Agents asked for; empty: the files' own choice. */
  readonly agents: readonly string[];
  /** Whether a model judges, whatever the files say. */
  readonly judge?: boolean;
  /** Model that judges, whatever the files say. */
  readonly judgeModel?: string;
  /** Absolute path of an MCP config file that gives servers. */
  readonly mcpConfig?: string;
  /** Whether nothing is to be run, so that an agent that cannot be run is only noted. */
  readonly lookOnly: boolean;
  /** Whether paths of tasks may leave their folders. */
  readonly allowOutside: boolean;
  /** Longest that a config that is a program may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** A file as messages name it: relative to where the reader is. */
export function shownFrom(cwd: string, file: string): string {
  return relative(cwd, file) || file;
}
