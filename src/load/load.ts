import { resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import type { Config } from "../core/formats/config/config-schema.ts";
import { formatKeyPath } from "../core/formats/json.ts";
import {
  environment as readEnvironment,
  type EnvironmentVariables,
  type LoadContext,
} from "./environment.ts";
import { loadEval } from "./eval/load-eval.ts";
import type { LoadedConfig } from "./assemble-eval.ts";
import { loadConfig } from "./load-config.ts";
import type { ConfigDocument } from "./read/document.ts";
import { findSources } from "./sources/find-sources.ts";
import { type OpenedFile, openSources } from "./sources/open-sources.ts";
import { loadTasks } from "./tasks/load-tasks.ts";
import { loadWaza } from "./load-waza.ts";

export interface LoadOptions {
  /**
   * Files, folders and globs: one config, one Eval or eval of waza, or any number of tasks; none: the nearest config from `cwd` upwards.
   * Or the config itself.
   */
  readonly sources: readonly string[] | Config;
  /** Absolute path of the folder that everything starts from. */
  readonly cwd: string;
  /** Variables over those of the environment. */
  readonly env?: EnvironmentVariables;
  /** Agents of the config, model ids, `oracle` or `null`, instead of the config's choice; empty leaves it as it is. */
  readonly agents?: readonly string[];
  /** Whether a model judges, whatever the config says. */
  readonly judge?: boolean;
  /** Model that judges, whatever the config says. */
  readonly judgeModel?: string | undefined;
  /** File with `mcpServers` that gives tasks and Evals their servers. */
  readonly mcpConfig?: string | undefined;
  /** Whether nothing is to be run, so that an agent that cannot be run is only noted. */
  readonly lookOnly?: boolean;
  /** Whether paths of tasks may leave their folders. */
  readonly allowOutside?: boolean;
  /** The environment. Default: this process's. */
  readonly environment?: EnvironmentVariables;
  /** Longest that a config that is a program may take, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

const defaultTimeoutMs = 30_000;

/**
 * Finds, reads, checks and completes the files to evaluate. Throws one McpvalsError of kind `usage`, whose
 * `details.diagnostics` has all problems of all files, and the signal's reason.
 */
export async function load(options: LoadOptions): Promise<LoadedConfig> {
  options.signal?.throwIfAborted();
  const { sources } = options;
  const loadContext = loadContextOf(options);
  // A config given as a value is copied before anything is waited for: its owner may change it from then on.
  if (!isList(sources)) return loadConfig({ document: valueDocument(sources) }, loadContext);
  const found = findSources(sources, loadContext);
  const opened = await openSources(found, loadContext);
  options.signal?.throwIfAborted();
  const [other] = opened.others;
  if (other === undefined) return loadTasks(found, opened, loadContext);
  if (found.length > 1) throw notAlone(other);
  switch (other.kind) {
    case "config":
      return loadConfig({ document: other.document, file: other.path }, loadContext);
    case "Eval":
      return loadEval(other, loadContext);
    case "waza":
      return loadWaza(other, loadContext);
    case "Agent":
      throw agentAlone(other);
  }
}

function isList(sources: LoadOptions["sources"]): sources is readonly string[] {
  return Array.isArray(sources);
}

function loadContextOf(options: LoadOptions): LoadContext {
  const { cwd, judge, judgeModel, mcpConfig, signal } = options;
  return {
    cwd,
    environment: options.environment ?? readEnvironment(),
    overrides: options.env ?? {},
    agents: options.agents ?? [],
    ...(judge === undefined ? {} : { judge }),
    ...(judgeModel === undefined ? {} : { judgeModel }),
    ...(mcpConfig === undefined ? {} : { mcpConfig: resolve(cwd, mcpConfig) }),
    lookOnly: options.lookOnly ?? false,
    allowOutside: options.allowOutside ?? false,
    timeoutMs: options.timeoutMs ?? defaultTimeoutMs,
    ...(signal === undefined ? {} : { signal }),
  };
}

function valueDocument(value: unknown): ConfigDocument {
  return {
    value,
    locate: ({ path }) => ({ file: "(config)", ...(path.length === 0 ? {} : { path: formatKeyPath(path) }) }),
  };
}

function notAlone({ kind, shown }: OpenedFile): McpvalsError {
  const kinds = { config: "a config", Eval: "an Eval", waza: "an eval", Agent: "an agent", Task: "a task" };
  const what = kinds[kind];
  return new McpvalsError("usage/invalid-option", `several sources are named, and ${shown} is ${what}`, {
    hint: "Only tasks can be run together; name a config or an Eval alone.",
  });
}

function agentAlone({ shown }: OpenedFile): McpvalsError {
  return new McpvalsError("usage/invalid-option", `${shown} is an agent, which has nothing to run`, {
    location: { file: shown },
    hint: "Name tasks, or an Eval that names this agent.",
  });
}

/** Gives the config back as it is; it is there so that editors check and complete it. */
export function defineConfig(config: Config): Config {
  return config;
}
