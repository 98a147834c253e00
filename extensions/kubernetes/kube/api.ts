import http from "node:http";
import https from "node:https";
import {
  EnvironmentError,
  type Json,
  type JsonObject,
  OperationFailed,
} from "../../../src/extensions/sdk/index.ts";
import type { Kubeconfig } from "./kubeconfig.ts";
import { isObject, objectsOf, textOf } from "./state.ts";

export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below the server's address, with its slash. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Json;
  /** Default: `application/json`. */
  readonly contentType?: string;
  readonly signal: AbortSignal;
}

/** Asks the server of a kubeconfig; objects go and come as they are, unknown fields included. */
export interface KubeApi {
  /** Address of the server, for messages. Throws EnvironmentError when the kubeconfig has none. */
  server(): string;
  /** Namespace for what names none. */
  readonly namespace: string;
  /** Address and options of a connection, credentials included. Throws EnvironmentError. */
  connection(path: string): Promise<{ readonly url: URL; readonly options: https.RequestOptions }>;
  /**
   * Throws ApiProblem when the server says that what is asked cannot be, EnvironmentError when it cannot be asked, and the
   * signal's reason.
   */
  request(request: ApiRequest): Promise<JsonObject>;
}

/** Makes the way to the server; nothing is sent yet. */
export function createApi(kubeconfig: Kubeconfig): KubeApi {
  const { client, files, context } = kubeconfig;
  const server = (): string => {
    const cluster = client.getCurrentCluster();
    if (cluster !== null) return cluster.server;
    const place = `the kubeconfig ${files.join(", ")}`;
    throw new EnvironmentError(
      context === undefined
        ? `${place} has no current context; name one as "context" in the extension's config`
        : `the context ${JSON.stringify(context)} of ${place} has no cluster`,
    );
  };
  const connection: KubeApi["connection"] = async (path) => {
    const url = new URL(server().replace(/\/$/, "") + path);
    const options: https.RequestOptions = {};
    try {
      await client.applyToHTTPSOptions(options);
    } catch (cause) {
      throw new EnvironmentError(`the credentials for ${server()} cannot be had`, { cause });
    }
    return { url, options };
  };
  return {
    server,
    namespace: client.getContextObject(client.getCurrentContext())?.namespace ?? "default",
    connection,
    async request(request) {
      request.signal.throwIfAborted();
      const query = new URLSearchParams(request.query).toString();
      const { url, options } = await connection(query === "" ? request.path : `${request.path}?${query}`);
      const answer = await exchange(url, options, request);
      return read(answer, { what: `${request.method} ${request.path}`, server: server() });
    },
  };
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

async function exchange(url: URL, options: https.RequestOptions, asked: ApiRequest): Promise<Answer> {
  try {
    return await send(url, options, asked);
  } catch (cause) {
    asked.signal.throwIfAborted();
    throw new EnvironmentError(`the Kubernetes API at ${url.origin} cannot be reached: ${reasonOf(cause)}`, {
      cause,
    });
  }
}

function send(url: URL, options: https.RequestOptions, asked: ApiRequest): Promise<Answer> {
  const { method, body, contentType = "application/json", signal } = asked;
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const headers: http.OutgoingHttpHeaders = {
    ...credentialsOf(options),
    Accept: "application/json",
    "User-Agent": "mcpvals-kubernetes",
    ...(payload === undefined
      ? {}
      : { "Content-Type": contentType, "Content-Length": Buffer.byteLength(payload) }),
  };
  return new Promise((done, fail) => {
    const start = url.protocol === "https:" ? https.request : http.request;
    const request = start(url, { ...options, method, headers, signal }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", fail);
      response.on("end", () =>
        done({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") }),
      );
    });
    request.on("error", fail);
    request.end(payload);
  });
}

/** The library gives headers as an object. */
function credentialsOf({ headers }: https.RequestOptions): http.OutgoingHttpHeaders {
  return headers === undefined || Array.isArray(headers) ? {} : { ...(headers as http.OutgoingHttpHeaders) };
}

function read({ status, text }: Answer, { what, server }: { what: string; server: string }): JsonObject {
  const body = parsed(text);
  if (status < 200 || status > 299) throw problemOf({ what, server, status, body, text });
  if (isObject(body)) return body;
  throw new EnvironmentError(
    `what answers at ${server} is not a Kubernetes API: ${what} gave no JSON object`,
  );
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // a proxy's page, or the plain text of an unknown path
  }
}

/** An attempt at several addresses fails with an error that has no text of its own. */
function reasonOf(cause: unknown): string {
  if (cause instanceof AggregateError && cause.message === "") return cause.errors.map(reasonOf).join(", ");
  return cause instanceof Error ? cause.message : String(cause);
}

/** The server answered that what was asked cannot be: not there, there already, not valid. */
export class ApiProblem extends OperationFailed {
  readonly status: number;
  /** As the server calls it, such as `NotFound`. */
  readonly reason: string | undefined;

  constructor(message: string, { status, reason }: { status: number; reason: string | undefined }) {
    super(message);
    this.name = "ApiProblem";
    this.status = status;
    this.reason = reason;
  }
}

/** An answer that is not a success. */
export interface FailedAnswer {
  /** What was tried, such as `GET /api/v1/pods`. */
  readonly what: string;
  readonly server: string;
  readonly status: number;
  /** The parsed body; undefined when it is not JSON. */
  readonly body: Json | undefined;
  readonly text: string;
}

/**
 * The error for an answer: an ApiProblem when it says something of what was asked, an EnvironmentError when it only says
 * that the server, or the right to ask, is missing.
 */
export function problemOf({ what, server, status, body, text }: FailedAnswer): Error {
  const told = isObject(body) ? textOf(body["message"]) : undefined;
  const message = told === undefined || told === "" ? text.trim().slice(0, 300) : told;
  if (saysNothing(status)) {
    return new EnvironmentError(
      `${hintOf(status)} ${server}: ${what} answered ${status}: ${message || "no text"}`,
    );
  }
  const reason = isObject(body) ? textOf(body["reason"]) : undefined;
  return new ApiProblem(message === "" ? `${what} answered ${status}` : message, { status, reason });
}

/** Whether an error is the server's answer that the object is not there. A missing namespace is not meant. */
export function isNotFound(error: unknown): error is ApiProblem {
  return error instanceof ApiProblem && error.status === 404;
}

/** The causes that a Status names, as texts. */
export function causesOf(status: Json | undefined): readonly { reason: string; message: string }[] {
  const details = isObject(status) && isObject(status["details"]) ? status["details"] : {};
  return objectsOf(details["causes"]).map((cause) => ({
    reason: textOf(cause["reason"]) ?? "",
    message: textOf(cause["message"]) ?? "",
  }));
}

function saysNothing(status: number): boolean {
  return status < 400 || status >= 500 || [401, 403, 407, 408, 429].includes(status);
}

function hintOf(status: number): string {
  if (status === 401) return "the kubeconfig's user is not known to";
  if (status === 403) return "the kubeconfig's user may not do this at";
  return "no usable answer from";
}

/** What the server knows of a kind. */
export interface ResourceType {
  readonly apiVersion: string;
  readonly kind: string;
  /** Path of its API version, such as `/apis/apps/v1`. */
  readonly base: string;
  /** As paths name it, such as `deployments`. */
  readonly plural: string;
  readonly namespaced: boolean;
}

/** The server has no such kind, so nothing of that kind can be there or be made. */
export class UnknownKind extends OperationFailed {
  constructor(message: string) {
    super(message);
    this.name = "UnknownKind";
  }
}

/**
 * Finds kinds by asking the server, which is asked again about a kind that it did not have. The function throws
 * UnknownKind, and what requests throw.
 */
export function createDiscovery(
  api: KubeApi,
): (apiVersion: string, kind: string, signal: AbortSignal) => Promise<ResourceType> {
  const known = new Map<string, readonly ResourceType[]>();
  return async (apiVersion, kind, signal) => {
    const before = known.get(apiVersion)?.find((type) => type.kind === kind);
    if (before !== undefined) return before;
    const types = await typesOf(api, apiVersion, signal);
    known.set(apiVersion, types);
    const type = types.find((candidate) => candidate.kind === kind);
    if (type === undefined) throw new UnknownKind(unknownText(apiVersion, kind, types));
    return type;
  };
}

async function typesOf(api: KubeApi, apiVersion: string, signal: AbortSignal): Promise<ResourceType[]> {
  const base = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  try {
    const list = await api.request({ method: "GET", path: base, signal });
    return objectsOf(list["resources"]).flatMap((entry) => typeOf(entry, apiVersion, base));
  } catch (error) {
    if (!isNotFound(error)) throw error;
    if (apiVersion !== "v1") return [];
    throw new EnvironmentError(`what answers at ${api.server()} is not a Kubernetes API: it has no ${base}`, {
      cause: error,
    });
  }
}

/** Names with a slash are parts of a resource, such as `pods/exec`. */
function typeOf(entry: JsonObject, apiVersion: string, base: string): ResourceType[] {
  const plural = textOf(entry["name"]) ?? "";
  const kind = textOf(entry["kind"]) ?? "";
  if (plural === "" || plural.includes("/")) return [];
  return [{ apiVersion, kind, base, plural, namespaced: entry["namespaced"] === true }];
}

function unknownText(apiVersion: string, kind: string, types: readonly ResourceType[]): string {
  if (types.length === 0)
    return `the server has no API ${apiVersion}, so no ${kind}; check apiVersion, or install what brings it`;
  const alike = types.find((type) =>
    [type.kind.toLowerCase(), type.plural].some(
      (name) => name === kind.toLowerCase() || name === `${kind.toLowerCase()}s`,
    ),
  );
  const hint = alike === undefined ? "" : `; did you mean ${alike.kind}?`;
  return `the server has no kind ${kind} in ${apiVersion}${hint}`;
}
