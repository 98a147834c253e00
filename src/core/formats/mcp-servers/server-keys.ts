import { serverShapes } from "../config/config-server-schema.ts";

/** Keys of `mcp_servers` entries that a config calls otherwise, with the config's name. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["working_dir", "cwd"],
  ["workingDir", "cwd"],
  ["workdir", "cwd"],
  ["startup_timeout_ms", "startupTimeout"],
  ["capture_stderr", "captureStderr"],
  ["rate_limit", "rateLimit"],
  ["inherit_env", "inheritEnv"],
  ["max_message_bytes", "maxMessageBytes"],
]);

/** Names of transports in `type` and `transport`, with the config's name; without case, `-` and `_`. */
export const transports: ReadonlyMap<string, string> = new Map([
  ["stdio", "stdio"],
  ["local", "stdio"],
  ["http", "shttp"],
  ["streamablehttp", "shttp"],
  ["shttp", "shttp"],
  ["sse", "sse"],
  ["mock", "mock"],
]);

/** Names to suggest for a type that is none. */
export const typeNames: readonly string[] = [
  "stdio",
  "local",
  "http",
  "streamable-http",
  "sse",
  "remote",
  "mock",
];

/** Every key that an entry may have, in its own spelling first. */
export const entryKeys: readonly string[] = [
  ...new Set([
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "transport",
    "headers",
    "tools",
    "startup_timeout_ms",
    "lifetime",
    "required",
    "capture_stderr",
    ...Object.keys(serverShapes),
    ...aliases.keys(),
  ]),
];

/** The config's name of a key. */
export function canonicalKey(key: string): string {
  return aliases.get(key) ?? key;
}
