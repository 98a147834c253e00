import type { SourceLocation } from "../../errors/error.ts";
import type { ParsedAgent } from "../config/config-agent-schema.ts";
import type { ParsedExtensionTable } from "../extension/extension-table-schema.ts";
import type { AssertionSet, JsonObject, ServerLifetime } from "../model.ts";

/** A `kind: Eval` file. Paths are as written, relative to the file; durations are in milliseconds. */
export interface EvalFile {
  /** Absent when the file has none. */
  readonly name?: string;
  /** Absent when the file names none; `agents` may still have some. */
  readonly agent?: AgentRef;
  /** Agents that the file has itself, by name. */
  readonly agents: Readonly<Record<string, ParsedAgent>>;
  readonly mcpConfigFile?: string;
  /** What the file itself says of servers: `servers`, `mcp_servers`, `mocks`, `mcp_mocks` and `variants`. */
  readonly tables: JsonObject;
  /** Lifetime of servers that set none. */
  readonly serverLifetime?: ServerLifetime;
  readonly seed?: number;
  readonly judge?: JudgeRef;
  /** Settings for extensions, and extensions by the names that tasks use. */
  readonly extensions: ParsedExtensionTable;
  /** For tasks that set none themselves. */
  readonly limits: { readonly timeoutMs?: number; readonly cleanupTimeoutMs?: number };
  readonly taskSets: readonly TaskSet[];
  readonly runs?: number;
  readonly parallel?: number;
  readonly inheritEnv: readonly string[] | true;
  /** Folders with skills for agents that are programs, as written; absent: it gives none. */
  readonly skills?: readonly string[];
}

/** Which agent is meant. */
export type AgentRef =
  | { readonly kind: "file"; readonly path: string }
  /** `model` is `PROVIDER/MODEL`. */
  | { readonly kind: "llm-agent"; readonly model: string }
  | { readonly kind: "claude-code" };

/** Which model judges. */
export type JudgeRef = { readonly passThreshold?: number } & (
  | { readonly kind: "agent"; readonly agent: AgentRef }
  /** Names of variables; the model that is found goes through `modelId` with `openai` as its usual provider. */
  | { readonly kind: "env"; readonly baseURL: string; readonly apiKey: string; readonly model: string }
);

/** Tasks by path or glob; of those, the ones that have all the labels. */
export interface TaskSet {
  readonly files: { readonly path: string } | { readonly glob: string };
  readonly labels: Readonly<Record<string, string>>;
  /** Absent when nothing is asserted. */
  readonly assertions?: AssertionSet;
  readonly location?: SourceLocation;
}
