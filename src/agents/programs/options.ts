import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { Effort, PermissionPolicy, SessionSettings, SystemPrompt } from "../../model/agent.ts";

/** Settings of an agent that each program takes in its own way. */
export interface ProgramSettings {
  /** Of the program's own tools, the only ones that it may use. */
  readonly allowedTools: readonly string[];
  readonly effort: Effort;
  /** Requests to the model in one user turn. */
  readonly maxTurns: number;
  readonly permissions: PermissionPolicy;
  readonly systemPrompt: SystemPrompt;
}

/** Those that an agent has. */
export type GivenSettings = { readonly [name in keyof ProgramSettings]?: ProgramSettings[name] | undefined };

/** What a setting adds to how a program is started. Texts are literal. */
export interface Addition {
  readonly args?: readonly string[];
  /** An argument for each server of the trial, with `{server}` for its name; only in the headless form. */
  readonly serverArg?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** What is asked in a session of the Agent Client Protocol. */
  readonly session?: SessionSettings;
  /** Files of the trial's home, by path with slashes; JSON is merged with what else is written there. */
  readonly files?: HomeFiles;
  /** Variables that name one of these files, by its path. */
  readonly paths?: Readonly<Record<string, string>>;
}

export type HomeFiles = Readonly<Record<string, string | JsonObject>>;

/** How a program takes each setting: what it adds; or, where the program cannot, why and what to do instead, as words after its name. */
export type OptionWays = {
  readonly [name in keyof ProgramSettings]: (value: ProgramSettings[name]) => Addition | string;
};

/** The ways of the Agent Client Protocol itself. */
export const asksInSession = {
  effort: (effort) => ({ session: { effort } }),
  systemPrompt: (systemPrompt) => ({ session: { systemPrompt } }),
} satisfies Partial<OptionWays>;

/** What a setting adds, or why it cannot be; undefined where it is not given, or nothing is known of it. */
export function wayOf<K extends keyof ProgramSettings>(
  ways: Partial<OptionWays>,
  settings: { readonly [name in K]?: ProgramSettings[name] | undefined },
  name: K,
): Addition | string | undefined {
  const value = settings[name];
  return value === undefined ? undefined : ways[name]?.(value);
}

export const settingNames = ["allowedTools", "effort", "maxTurns", "permissions", "systemPrompt"] as const;

/** Everything that the given settings add; what a program cannot do adds nothing. */
export function additionOf(ways: Partial<OptionWays>, settings: GivenSettings): Required<Addition> {
  const found = settingNames.map((name) => wayOf(ways, settings, name));
  const parts = found.filter((part) => typeof part === "object");
  return {
    args: parts.flatMap(({ args = [] }) => args),
    serverArg: parts.find(({ serverArg }) => serverArg !== undefined)?.serverArg ?? "",
    env: Object.assign({}, ...parts.map(({ env }) => env)) as Record<string, string>,
    session: parts.reduce(
      (all, { session }) => ({
        ...all,
        ...session,
        meta: mergeObjects(all.meta ?? {}, session?.meta ?? {}),
      }),
      {} as SessionSettings,
    ),
    files: parts.reduce((all, { files }) => mergeFiles(all, files), {} as HomeFiles),
    paths: Object.assign({}, ...parts.map(({ paths }) => paths)) as Record<string, string>,
  };
}

/** Puts files over others: two of JSON are merged. */
export function mergeFiles(below: HomeFiles, above: HomeFiles = {}): HomeFiles {
  const merged = { ...below };
  for (const [path, content] of Object.entries(above)) {
    const other = merged[path];
    merged[path] =
      typeof other === "object" && typeof content === "object" ? mergeObjects(other, content) : content;
  }
  return merged;
}

/** Puts one object over another: objects in both are merged, everything else is replaced. */
export function mergeObjects(below: JsonObject, above: JsonObject): JsonObject {
  const merged: Record<string, Json> = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const other = Object.hasOwn(below, key) ? below[key] : undefined;
    merged[key] = isJsonObject(other) && isJsonObject(value) ? mergeObjects(other, value) : value;
  }
  return merged;
}
