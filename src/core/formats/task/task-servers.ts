import { parseTemplate } from "../../templates/parse-template.ts";
import { taskRoots } from "../../templates/scope.ts";
import { buildServer } from "../config/build-server.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject, ServerSpec } from "../model.ts";
import type { ParsedTaskFile } from "./task-schema.ts";
import type { ParseTaskOptions } from "./task-options.ts";

/** How the servers of a task stand, read from a document that may be wrong. */
export interface ServerNames {
  /** Servers of its own. */
  readonly own: readonly string[];
  /** Those that a trial starts: the eval's and its own, without the ones taken away. */
  readonly started: readonly string[];
  /** Those that steps may name: also the ones that the eval must provide. */
  readonly known: readonly string[];
}

/** Reads the names of a task's servers. */
export function serverNames(spec: JsonObject, provided: readonly string[]): ServerNames {
  const declared = isJsonObject(spec["servers"]) ? Object.entries(spec["servers"]) : [];
  const own = declared.filter(([, server]) => server !== null).map(([name]) => name);
  const removed = declared.filter(([, server]) => server === null).map(([name]) => name);
  const started = [...new Set([...provided, ...own])].filter((name) => !removed.includes(name));
  const required = Array.isArray(spec["requires"]) ? spec["requires"].flatMap(requiredServer) : [];
  return { own, started, known: [...new Set([...started, ...required])] };
}

function requiredServer(requirement: Json): string[] {
  const name = isJsonObject(requirement) ? requirement["server"] : undefined;
  return typeof name === "string" ? [name] : [];
}

/**
 * The `servers` of a task as the schema of servers wants them: with the transport that a command or a url tells, and
 * with addresses that are addresses before their templates are replaced.
 */
export function completeServers(servers: Json): Json {
  return isJsonObject(servers) ? mapMembers(servers, completeServer) : servers;
}

function completeServer(server: Json): Json {
  if (!isJsonObject(server)) return server;
  const { url } = server;
  const address = typeof url === "string" ? { url: sampleAddress(url) } : {};
  return { ...inferTransport(server), ...server, ...address };
}

function inferTransport(server: JsonObject): JsonObject {
  if ("command" in server) return { transport: "stdio" };
  return "url" in server ? { transport: "shttp" } : {};
}

/** An address with something in the place of every template. */
function sampleAddress(url: string): string {
  const parts = parseTemplate(url, (root) => taskRoots.some((each) => each === root));
  if (parts.every((part) => typeof part === "string")) return url;
  if (typeof parts[0] !== "string") return "http://127.0.0.1/";
  return parts.map((part) => (typeof part === "string" ? part : "1")).join("");
}

/** The task's own servers, as the model has them; `document` is the file, with addresses as written. */
export function buildServers(
  servers: ParsedTaskFile["spec"]["servers"],
  written: Json | undefined,
  options: ParseTaskOptions,
): Readonly<Record<string, ServerSpec>> {
  const starting = { completeStdio: options.completeStdio, startupTimeoutMs: defaultStartupMs };
  const built = Object.entries(servers).flatMap(([name, server]) => {
    if (server === null) return [];
    const spec = buildServer(name, server, starting);
    return [[name, "url" in spec ? { ...spec, url: urlOf(name, written) ?? spec.url } : spec]];
  });
  return Object.fromEntries(built) as Readonly<Record<string, ServerSpec>>;
}

const defaultStartupMs = 30_000;

function urlOf(name: string, written: Json | undefined): string | undefined {
  const server = isJsonObject(written) ? written[name] : undefined;
  const url = isJsonObject(server) ? server["url"] : undefined;
  return typeof url === "string" ? url : undefined;
}

function mapMembers(object: JsonObject, change: (value: Json) => Json): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
}
