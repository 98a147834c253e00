import {
  parseConfig,
  type ParseConfigOptions,
  type ParsedEval,
} from "../../src/formats/config/parse-config.ts";
import { formatKeyPath } from "../../src/base/json.ts";
import { graderKinds } from "../../src/graders/kinds.ts";
import type { Eval } from "../../src/model/eval.ts";

export const stdio = { transport: "stdio", command: "node" } as const;

/** Parses a config over one that tests a tool on a program. */
export function parse(config: object, options: Partial<ParseConfigOptions> = {}): ParsedEval {
  const hasServers = "servers" in config;
  const usual = { toolHealthSuites: [{ name: "suite", tests: [{ name: "add" }] }] };
  const whole = { ...(hasServers ? {} : { server: stdio }), ...usual, ...config };
  return parseConfig(whole, {
    defaultName: "folder",
    completeStdio: ({ cwd, env, inheritEnv }) => ({
      cwd: cwd ?? "/dir",
      env: { ...env, inherited: String(inheritEnv) },
    }),
    completeProgram: ({ env, inheritEnv, cwd, homeVariables }) => ({
      env: { ...env, inherited: String(inheritEnv) },
      ...(homeVariables === undefined ? {} : { userHome: {} }),
      ...(cwd === undefined ? {} : { cwd: `/dir/${cwd}` }),
    }),
    resolvePath: (path) => `/dir/${path}`,
    graderTypes: { types: graderKinds, dir: "/dir", look: () => "file", readText: () => "{}" },
    locate: ({ path }) => ({ file: "f", path: formatKeyPath(path) }),
    ...options,
  });
}

export function evalOf(config: object, options?: Partial<ParseConfigOptions>): Eval {
  const parsed = parse(config, options);
  if (!parsed.ok) throw new Error(parsed.diagnostics.map((each) => each.message).join("\n"));
  return parsed.eval;
}

export function notesOf(config: object, options?: Partial<ParseConfigOptions>): readonly string[] {
  const parsed = parse(config, options);
  return parsed.ok ? parsed.notes : ["not valid"];
}

export function problemsOf(config: object, options?: Partial<ParseConfigOptions>): string[] {
  const parsed = parse(config, options);
  if (parsed.ok) return [];
  return parsed.diagnostics.map(({ code, location, message }) => `${code} at ${location?.path}: ${message}`);
}
