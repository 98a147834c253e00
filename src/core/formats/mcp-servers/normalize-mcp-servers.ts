import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { canonicalKey, entryKeys, transports, typeNames } from "./server-keys.ts";

/** A table of `mcp_servers` with the keys of a config's `servers`. */
export interface NormalizedServers {
  /**
   * The servers, and null and `inherit: false` as they were written: what `mergeServers` takes. Once merged, and made plain,
   * `completeServers` makes a config's `servers` of it.
   */
  readonly table: JsonObject;
  /** What is wrong with names, keys and types; the rest is for the schema of servers to find. */
  readonly problems: readonly Problem[];
  /** The path in the document of a path in `table`. */
  readonly written: (path: KeyPath) => KeyPath;
}

/**
 * Gives the keys and types of an `mcp_servers` table the names that a config has for them: `workingDir` is `cwd`, `type: http`
 * is `transport: shttp`. `path` says where in the document the table stands. Entries may lack parts that a table below has.
 */
export function normalizeMcpServers(document: Json | undefined, path: KeyPath): NormalizedServers {
  const state: State = { problems: [], renamed: new Map() };
  const written = (place: KeyPath): KeyPath => [...path, ...writtenPath(place, state.renamed)];
  if (document === undefined || document === null) return { table: {}, problems: [], written };
  if (!isJsonObject(document)) {
    state.problems.push(invalid("must be an object: servers by name", path));
    return { table: {}, problems: state.problems, written };
  }
  const members = Object.entries(document).flatMap(([name, entry]) =>
    readEntry(name, entry, { path: [...path, name], state }),
  );
  return { table: Object.fromEntries(members), problems: state.problems, written };
}

interface State {
  readonly problems: Problem[];
  /** Keys as written, by server and the config's name. */
  readonly renamed: Map<string, string>;
}

interface Place {
  readonly path: KeyPath;
  readonly state: State;
}

/** `__proto__` is no key that objects keep. */
const namePattern = /^(?!__proto__$)[A-Za-z0-9_-]+$/;

function readEntry(name: string, entry: Json, place: Place): [string, Json][] {
  const { path, state } = place;
  if (name === "inherit") {
    if (typeof entry === "boolean") return [[name, entry]];
    const message = `${formatKeyPath(path)} must be true or false; no server can have this name`;
    state.problems.push({ code: "config/invalid-value", message, path, at: "value" });
    return [];
  }
  if (!namePattern.test(name)) {
    const message = `the name of a server must be of letters, digits, _ and -, not ${JSON.stringify(name.slice(0, 80))}`;
    state.problems.push({ code: "config/invalid-value", message, path, at: "key" });
    return [];
  }
  if (entry === null) return [[name, null]];
  if (!isJsonObject(entry)) {
    state.problems.push(invalid("must be an object, or null to remove the server", path));
    return [];
  }
  return [[name, renameKeys(name, entry, place)]];
}

function renameKeys(name: string, entry: JsonObject, place: Place): JsonObject {
  const members = new Map<string, Json>();
  for (const [key, value] of Object.entries(entry)) {
    const canonical = key === "type" ? "transport" : canonicalKey(key);
    if (key !== "inherit" && !entryKeys.includes(key)) refuseKey(key, place);
    else if (members.has(canonical) && key !== "type" && key !== "transport")
      refuseTwin(key, place.state.renamed.get(twinKey(name, canonical)) ?? canonical, place);
    else if (canonical !== "transport") {
      members.set(canonical, value);
      place.state.renamed.set(twinKey(name, canonical), key);
    }
  }
  const transport = readTransport(entry, place);
  if (transport === undefined) return Object.fromEntries(members);
  place.state.renamed.set(twinKey(name, "transport"), entry["type"] === undefined ? "transport" : "type");
  return Object.fromEntries([["transport", transport], ...members]);
}

function refuseKey(key: string, { path, state }: Place): void {
  state.problems.push({
    code: "config/unknown-key",
    message: `unknown key ${JSON.stringify(key.slice(0, 80))} in ${formatKeyPath(path)}`,
    path: [...path, key],
    at: "key",
    hint: usualKeys.get(key) ?? suggestion(key, entryKeys, "keys"),
  });
}

/** Keys of other tools that have no counterpart of the same shape. */
const usualKeys: ReadonlyMap<string, string> = new Map([
  ["timeout", "How long the start may take is startup_timeout_ms, in milliseconds."],
  ["disabled", "Leave the server out, or write null for it where it is inherited."],
  ["alwaysAllow", "The tools that an agent may use are tools."],
  ["allowedTools", "The tools that an agent may use are tools."],
  ["allowed_tools", "The tools that an agent may use are tools."],
]);

function refuseTwin(key: string, first: string, { path, state }: Place): void {
  const message = `${key} and ${first} in ${formatKeyPath(path)} are the same setting`;
  const hint = "Keep one of them.";
  state.problems.push({ code: "config/duplicate-name", message, path: [...path, key], at: "key", hint });
}

interface Said {
  readonly transport: string | null;
}

/** What `type` and `transport` say together; `remote` leaves it to `transport`. Undefined: neither says anything. */
function readTransport(entry: JsonObject, { path, state }: Place): Json | undefined {
  const found = (["type", "transport"] as const).flatMap((key): Said[] => {
    const value = entry[key];
    if (value === undefined) return [];
    if (value === null) return [{ transport: null }];
    const word = typeof value === "string" ? value.toLowerCase().replaceAll(/[-_\s]/g, "") : "";
    if (key === "type" && word === "remote") return [];
    const transport = transports.get(word);
    if (transport !== undefined) return [{ transport }];
    const hint = suggestion(typeof value === "string" ? value : "", typeNames, "types");
    const problem = invalid("is no type of server", [...path, key]);
    state.problems.push({ ...problem, hint });
    return [];
  });
  const [first, second] = found;
  if (first === undefined) return entry["type"] === undefined ? undefined : remoteOr(entry);
  if (second === undefined || second.transport === first.transport) return first.transport;
  const message = `type and transport in ${formatKeyPath(path)} contradict each other`;
  state.problems.push({ code: "config/invalid-value", message, path: [...path, "transport"], at: "value" });
  return first.transport;
}

function remoteOr({ type }: JsonObject): Json | undefined {
  return typeof type === "string" && type.toLowerCase() === "remote" ? "shttp" : undefined;
}

function invalid(predicate: string, path: KeyPath): Problem {
  return { code: "config/invalid-value", message: `${formatKeyPath(path)} ${predicate}`, path, at: "value" };
}

function twinKey(server: string | number, key: string | number): string {
  return JSON.stringify([server, key]);
}

function writtenPath([server, key, ...rest]: KeyPath, renamed: ReadonlyMap<string, string>): KeyPath {
  if (server === undefined) return [];
  if (key === undefined) return [server];
  return [server, renamed.get(twinKey(server, key)) ?? key, ...rest];
}
