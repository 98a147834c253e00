import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { McpvalsError, codeOf, messageOf } from "../base/error.ts";
import { readRegularFile } from "../base/files.ts";
import { isJsonObject, mapValues, type Json, type JsonObject } from "../base/json.ts";
import { maxFileBytes } from "../base/limits.ts";
import type { AcpAgentSpec, CommandAgentSpec } from "../model/agent.ts";
import { runningPlatform } from "../process/environment.ts";
import { makeTemporaryFolder, removeFolder } from "../process/folders.ts";
import type { Secret } from "../trace/redact.ts";
import type { AgentContext } from "./driver.ts";
import { type HomeFiles, mergeFiles } from "./programs/options.ts";
import type { LoginFile } from "./programs/preset.ts";
import { presetNamed } from "./programs/presets.ts";

type Variables = Readonly<Record<string, string>>;

export interface HomeOptions {
  /** Called with each text of the login that may be secret, before the program starts. */
  readonly onSecret?: (secret: Secret) => void;
}

/**
 * Gives the environment of an agent's program. If each trial has a home of its own, creates it, with a copy of the login of the user and
 * nothing else of the user; it is removed when the trial ends. Throws McpvalsError `agent/home`.
 */
export async function environmentAtHome(
  spec: AcpAgentSpec | CommandAgentSpec,
  { workspace, defer }: Pick<AgentContext, "workspace" | "defer">,
  { onSecret }: HomeOptions = {},
): Promise<Variables> {
  const { name, preset, command, env, cwd, userHome } = spec;
  if (userHome === undefined) return env;
  const known = presetNamed(preset)?.home;
  if (cwd === undefined) refuseForeign(name, workspace, known?.above ?? []);
  const home = await makeTemporaryFolder("home");
  defer(() => removeFolder(home));
  const user = userHome[runningPlatform() === "win32" ? "USERPROFILE" : "HOME"] ?? homedir();
  const variables = variablesOf(home);
  for (const folder of new Set(Object.values(variables).filter((value) => value.startsWith(home))))
    await mkdir(folder, { recursive: true, mode: 0o700 });
  const { withKey } = known ?? {};
  let files: HomeFiles = withKey !== undefined && (env[withKey.variable] ?? "") !== "" ? withKey.files : {};
  for (const login of known?.login ?? []) {
    const content = readLogin(name, login, userHome[login.variable] ?? join(user, login.folder));
    if (content === undefined) continue;
    for (const value of secretsIn(content)) onSecret?.({ name: `login of ${name}`, value });
    files = { ...files, [[login.folder, login.file].filter(Boolean).join("/")]: content };
  }
  files = mergeFiles(mergeFiles(files, known?.files), spec.homeFiles);
  for (const [path, content] of Object.entries(files)) {
    const text = typeof content === "string" ? content : JSON.stringify(content, undefined, 2);
    await writePrivate(join(home, path), text);
  }
  const caches = Object.entries({ ...cachesOf(command), ...known?.caches })
    .map(([variable, folder]) => [variable, join(user, folder)] as const)
    .filter(([, folder]) => existsSync(folder));
  const paths = mapValues(spec.homePaths ?? {}, (path) => join(home, path));
  const own = { ...variables, ...Object.fromEntries(caches), ...paths };
  // In the environment of a command agent, names in braces are replaced.
  const written = spec.type === "command" ? mapValues(own, (value) => value.replaceAll("{", "{{")) : own;
  return { ...written, ...env };
}

async function writePrivate(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(path, content, { mode: 0o600 });
}

function variablesOf(home: string): Variables {
  if (runningPlatform() !== "win32") return { HOME: home, TMPDIR: join(home, "tmp") };
  const temporary = join(home, "AppData", "Local", "Temp");
  return {
    USERPROFILE: home,
    APPDATA: join(home, "AppData", "Roaming"),
    LOCALAPPDATA: join(home, "AppData", "Local"),
    TEMP: temporary,
    TMP: temporary,
  };
}

/** What npm starts would otherwise be downloaded for each trial. */
function cachesOf(command: string): Variables {
  if (!/^np[mx](?:\.cmd)?$/.test(basename(command))) return {};
  return { npm_config_cache: runningPlatform() === "win32" ? "AppData/Local/npm-cache" : ".npm" };
}

/** Throws if a folder above the workspace has something that the program would read, and that is no part of the trial. */
function refuseForeign(agent: string, workspace: string, names: readonly string[]): void {
  for (let folder = dirname(workspace); ; folder = dirname(folder)) {
    const found = names.map((name) => join(folder, name)).find((path) => existsSync(path));
    if (found !== undefined)
      throw new McpvalsError(
        "agent/home",
        `agent ${agent} would read ${found}, which is not part of the trial`,
        {
          hint: "Remove it, set TMPDIR (on Windows TEMP) to a folder with nothing like it above, or set home: user to allow it.",
        },
      );
    if (dirname(folder) === folder) return;
  }
}

function readLogin(agent: string, { file, carry }: LoginFile, folder: string): JsonObject | undefined {
  const path = join(folder, file);
  try {
    const text = readRegularFile(path, maxFileBytes).toString("utf8");
    // Copilot writes comments at the top.
    const content = JSON.parse(text.replaceAll(/^\s*\/\/.*$/gm, "")) as Json;
    if (!isJsonObject(content)) throw new Error("it is not a JSON object");
    return carry === undefined ? content : carry(content);
  } catch (cause) {
    if (codeOf(cause) === "ENOENT" || codeOf(cause) === "ENOTDIR") return undefined;
    // The message of the parser would show a part of the file.
    const reason = cause instanceof SyntaxError ? "it is not JSON" : messageOf(cause);
    throw new McpvalsError(
      "agent/home",
      `the login of agent ${agent} cannot be read from ${path}: ${reason}`,
      {
        hint: "Log in with the program again, or give its key in a variable and move the file away.",
        ...(cause instanceof SyntaxError ? {} : { cause }),
      },
    );
  }
}

/** Shorter texts are kinds, names and dates. */
const minSecretLength = 16;

function secretsIn(value: Json): readonly string[] {
  if (typeof value === "string")
    return value.length >= minSecretLength && !/\s|:\/\//.test(value) ? [value] : [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(secretsIn) : [];
}
