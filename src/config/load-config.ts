import { basename, dirname, relative, resolve } from "node:path";
import { type Diagnostic, McpvalsError } from "../core/errors/error.ts";
import type { ParsedStdioServer } from "../core/formats/config/build-eval.ts";
import type { Config } from "../core/formats/config/config-schema.ts";
import { type Interpolation, interpolate } from "../core/formats/interpolate.ts";
import { formatKeyPath } from "../core/formats/key-path.ts";
import type { Eval } from "../core/formats/model.ts";
import { parseConfig } from "../core/formats/config/parse-config.ts";
import { createRedactor, type Secret } from "../core/trace/redact.ts";
import type { ConfigDocument } from "./read/document.ts";
import { environment as readEnvironment, type EnvironmentVariables, variableNamed } from "./environment.ts";
import { failureOf } from "./failure.ts";
import { findConfig } from "./find-config.ts";
import { maskSecrets } from "./secrets/mask-secrets.ts";
import { readDocument } from "./read/read-document.ts";
import { collectSecrets } from "./secrets/secrets.ts";
import { completeStdio, unsetInherited } from "./server-environment.ts";

export interface LoadConfigOptions {
  /** A config file, a folder that has one, or the config itself; undefined: the nearest file from `cwd` upwards. */
  readonly source?: string | Config | undefined;
  /** Absolute path of the folder that everything starts from. */
  readonly cwd: string;
  /** Variables over those of the environment. */
  readonly env?: EnvironmentVariables;
  /** Agents of the config, or model ids, instead of the config's choice; empty leaves it as it is. */
  readonly agents?: readonly string[];
  /** Whether a model judges, whatever the config says. */
  readonly judge?: boolean;
  /** The environment. Default: this process's. */
  readonly environment?: EnvironmentVariables;
  /** Longest that a config that is a program may take, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** An eval that is ready to run. */
export interface LoadedConfig {
  readonly eval: Eval;
  /** Absolute path of the file; absent when the config was given as a value. */
  readonly file?: string;
  /** The folder that relative paths of the config start from. */
  readonly dir: string;
  /** The environment with `env` on top. */
  readonly env: EnvironmentVariables;
  /** What was given as `env`. */
  readonly overrides: EnvironmentVariables;
  /** Values that must never be written. */
  readonly secrets: readonly Secret[];
  /** What is valid but does not do what its author may think. */
  readonly notes: readonly string[];
}

/**
 * Finds, reads, checks and completes a config. Throws one McpvalsError of kind `usage`, whose `details.diagnostics` has
 * everything that is wrong with the file, and the signal's reason.
 */
export async function loadConfig(options: LoadConfigOptions): Promise<LoadedConfig> {
  const environment = options.environment ?? readEnvironment();
  const overrides = options.env ?? {};
  const { source } = options;
  // A config given as a value is copied before anything is waited for: its owner may change it from then on.
  const { document, file, dir } =
    typeof source === "object" ? given(source, options) : await open(source, options);
  const found = interpolate(
    document.value,
    (name) => variableNamed(name, overrides) ?? variableNamed(name, environment),
  );
  const surroundings = { dir, environment, overrides };
  const unset: string[] = [];
  const parsed = parseConfig(found.value, {
    defaultName: basename(dir) || "config",
    locate: document.locate,
    earlier: found.problems,
    templates: found.templates,
    agents: options.agents ?? [],
    ...(options.judge === undefined ? {} : { judge: options.judge }),
    completeStdio: (server, name) => {
      unset.push(...unsetNotes(name, server, environment));
      return completeStdio(server, surroundings);
    },
  });
  if (!parsed.ok) throw failure(parsed.diagnostics, { document, found, environment, overrides });
  return {
    eval: parsed.eval,
    dir,
    ...(file === undefined ? {} : { file }),
    env: { ...environment, ...overrides },
    overrides,
    secrets: collectSecrets({
      document: found.value,
      variables: found.variables,
      overrides,
      environment,
      serverEnvironments: serverEnvironments(parsed.eval),
    }),
    notes: [...parsed.notes, ...unset],
  };
}

interface Opened {
  readonly document: ConfigDocument;
  readonly file?: string;
  readonly dir: string;
}

const defaultTimeoutMs = 30_000;

function given(config: Config, { cwd, signal }: LoadConfigOptions): Opened {
  signal?.throwIfAborted();
  return { document: valueDocument(config), dir: resolve(cwd) };
}

async function open(
  source: string | undefined,
  { cwd, timeoutMs = defaultTimeoutMs, signal }: LoadConfigOptions,
): Promise<Opened> {
  signal?.throwIfAborted();
  const file = findConfig(source, cwd);
  const shown = relative(cwd, file) || file;
  const document = await readDocument(file, {
    shown,
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
  });
  return { document, file, dir: dirname(file) };
}

function valueDocument(value: unknown): ConfigDocument {
  return {
    value,
    locate: ({ path }) => ({ file: "(config)", ...(path.length === 0 ? {} : { path: formatKeyPath(path) }) }),
  };
}

function unsetNotes(name: string, server: ParsedStdioServer, environment: EnvironmentVariables): string[] {
  return unsetInherited(server, environment).map(
    (variable) => `server "${name}": inheritEnv names ${variable}, which is not set`,
  );
}

function serverEnvironments(spec: Eval): EnvironmentVariables[] {
  return Object.values(spec.servers).flatMap((server) => (server.transport === "stdio" ? [server.env] : []));
}

interface FailureParts {
  readonly document: ConfigDocument;
  readonly found: Interpolation;
  readonly environment: EnvironmentVariables;
  readonly overrides: EnvironmentVariables;
}

/** Problems that get the lines around them; a file with more is not mended by reading on. */
const mostFrames = 100;

function failure(diagnostics: readonly Diagnostic[], parts: FailureParts): McpvalsError {
  const { document, found, environment, overrides } = parts;
  const secrets = collectSecrets({
    document: found.value,
    variables: found.variables,
    overrides,
    environment,
  });
  const values = secrets.map((secret) => secret.value);
  const redact = createRedactor(secrets);
  const framed = diagnostics.map((diagnostic, index) => {
    const frame = index < mostFrames ? frameOf(diagnostic, document) : undefined;
    return { ...redact(diagnostic), ...(frame === undefined ? {} : { frame: maskSecrets(frame, values) }) };
  });
  return failureOf(framed);
}

function frameOf({ location }: Diagnostic, document: ConfigDocument): string | undefined {
  return location === undefined ? undefined : document.source?.frame(location);
}
