import http from "node:http";
import https from "node:https";
import { EnvironmentError, type Json, type JsonObject } from "../../../src/extension-sdk/index.ts";
import { problemOf } from "./api-problem.ts";
import { isObject } from "./json.ts";
import type { Kubeconfig } from "./kubeconfig.ts";

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
  throw new EnvironmentError(`what answers at ${server} is no Kubernetes API: ${what} gave no JSON object`);
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
