import { resolve } from "node:path";
import { McpvalsError } from "./base/error.ts";
import { exact } from "./base/json.ts";
import {
  checkOptions,
  commonChecks,
  type Evaluation,
  evaluationOf,
  isText,
  isTexts,
  milliseconds,
  type OptionChecks,
  yesOrNo,
} from "./evaluate.ts";
import type { LoadedConfig } from "./formats/assemble-eval.ts";
import { loadTarget } from "./formats/target.ts";
import { findingsOf, type RunFinding } from "./model/finding.ts";
import { checkServers } from "./run/check-servers.ts";

/** A server: a URL, or the path of a file with servers, such as a config; or a command with its arguments. */
export type Target = string | readonly string[];

/** Which server of a target, and what it is loaded with. */
export interface TargetOptions {
  /** Name of a server in the file. Default: all of them. */
  readonly server?: string;
  /** Folder that relative paths start from. Default: the process's working folder. */
  readonly cwd?: string;
  /** Variables for the file and for programs; they override those of the process. */
  readonly env?: Readonly<Record<string, string>>;
  /** HTTP headers for a URL. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Name of the variable, of `env` or the environment, with a bearer token for a URL. */
  readonly bearerEnv?: string;
}

/** Options of `check`, the same as the flags of `mcpvals check`. */
export interface CheckOptions extends TargetOptions {
  /** Tools to call: those annotated `readOnlyHint: true` (safe), all, or none. Default: the config's, else safe. */
  readonly calls?: "safe" | "all" | "none";
  /** Codes of findings to leave out. */
  readonly disable?: readonly string[];
  /** Codes of findings that are reported only on request. */
  readonly enable?: readonly string[];
  /** Time limit of a request, in milliseconds. Default: the config's, else 5000. */
  readonly callTimeoutMs?: number;
  /** More warnings than this fail the check. Default: any number may pass. */
  readonly maxWarnings?: number;
  /** The file with the definitions that the servers must have. */
  readonly snapshot?: string;
  /** Write that file in place of comparing with it. */
  readonly update?: boolean;
  /** Whether the official conformance suite, `@modelcontextprotocol/conformance`, runs, too. Default: the config's, else false. */
  readonly conformance?: boolean;
  /** Whether the servers run in a sandbox with planted secrets, and what they touch is watched. Default: the config's, else false. */
  readonly security?: boolean;
  /** Folder that keeps the runs, or false to keep nothing. Default: `.mcpvals/runs` below `cwd`. */
  readonly output?: string | false;
  /** Aborting stops the check; the verdict of the result is then `interrupted`. */
  readonly signal?: AbortSignal;
}

/** What a check found. */
export interface CheckResult extends Evaluation {
  /** Errors first, then warnings, then info. */
  readonly findings: readonly RunFinding[];
}

/**
 * Checks servers without a model and without tests, as `mcpvals check` does, and prints nothing.
 *
 * @returns The result document with the findings. What is wrong with a server is in it, not thrown.
 * @throws McpvalsError of kind `usage` for a wrong target or option, of another kind for a server that cannot be started or reached.
 */
export async function check(target: Target, options: CheckOptions = {}): Promise<CheckResult> {
  checkOptions("check", options, optionChecks);
  const {
    calls,
    disable,
    enable,
    callTimeoutMs: callMs,
    maxWarnings,
    update,
    output,
    conformance,
    security,
  } = options;
  const { signal = new AbortController().signal, cwd = process.cwd() } = options;
  const snapshot = options.snapshot === undefined ? undefined : resolve(cwd, options.snapshot);
  const loaded = await loadServers(target, { ...options, signal });
  const outcome = await checkServers(loaded, {
    cwd,
    signal,
    keepPassed: true,
    isWhole: loaded.file !== undefined && options.server === undefined,
    ...exact({
      calls,
      disable,
      enable,
      callMs,
      maxWarnings,
      snapshot,
      update,
      output,
      conformance,
      security,
    }),
  });
  const evaluation = evaluationOf(outcome);
  return { ...evaluation, findings: findingsOf(evaluation.trials) };
}

const optionChecks: OptionChecks<CheckOptions> = {
  ...commonChecks,
  server: [isText, "the name of a server"],
  headers: commonChecks.env,
  bearerEnv: [isText, "the name of a variable"],
  calls: [(value) => isText(value) && ["safe", "all", "none"].includes(value), "safe, all or none"],
  disable: [isTexts, "a list of codes"],
  enable: [isTexts, "a list of codes"],
  callTimeoutMs: milliseconds,
  snapshot: [isText, "the path of a file"],
  update: yesOrNo,
  conformance: yesOrNo,
  security: yesOrNo,
  maxWarnings: [(value) => Number.isInteger(value) && Number(value) >= 0, "a whole number from 0"],
};

const optionNames = { server: "server", headers: "headers", bearerEnv: "bearerEnv" };

/** Loads the servers of a target, or the one that is named. Throws McpvalsError of kind `usage`. */
export async function loadServers(
  target: Target,
  options: TargetOptions & { readonly signal: AbortSignal },
): Promise<LoadedConfig> {
  const { server, cwd = process.cwd(), env = {}, headers, bearerEnv, signal } = options;
  if (!isText(target) && (!isTexts(target) || target.length === 0))
    throw new McpvalsError(
      "usage/invalid-option",
      "the target must be a URL, the path of a file with servers, or a command with its arguments as a list of texts",
    );
  const what = isText(target) ? { source: target } : { command: target };
  return loadTarget({ ...what, server, env, headers, bearerEnv }, { cwd, signal, optionNames });
}
