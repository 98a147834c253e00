import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpStep } from "../../core/formats/step.ts";

/** Largest response body that is read, in bytes, after decompression. */
const mostBytes = 10_000_000;

/** A response, its body read as UTF-8 to its end. */
export interface HttpAnswer {
  readonly status: number;
  /** Names ignore case. */
  readonly headers: Headers;
  readonly body: string;
}

/**
 * Sends a request and reads the response; redirects are followed, and the connection is closed afterwards. Throws
 * McpvalsError `step/cannot-run` when there is no whole response, and the signal's reason.
 */
export async function sendHttp(
  request: Pick<HttpStep, "url" | "method" | "headers" | "body">,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { url, method } = request;
  const target = `${method} ${url}`;
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw new McpvalsError("step/cannot-run", `${JSON.stringify(url)} is no URL of http or https`, {
      hint: "Write it whole, such as http://127.0.0.1:{random.port}/health.",
    });
  let failed = `no response to ${target}`;
  try {
    const response = await fetch(url, initOf(request, signal));
    failed = `the response to ${target} broke off`;
    return { status: response.status, headers: response.headers, body: await readBody(response, target) };
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof McpvalsError) throw cause;
    throw new McpvalsError("step/cannot-run", `${failed}: ${reasonOf(cause)}`, {
      cause,
      hint: "Check that the server runs, and host and port; retry: {for: 30s} waits for one that starts.",
    });
  }
}

function initOf(
  { method, headers: given, body }: Pick<HttpStep, "method" | "headers" | "body">,
  signal: AbortSignal,
): RequestInit {
  const headers = new Headers(given);
  // A connection that is kept for later requests would outlive the step.
  headers.set("connection", "close");
  if (body === undefined) return { method: method.toUpperCase(), headers, signal };
  const isJson = "json" in body;
  if (isJson && !headers.has("content-type")) headers.set("content-type", "application/json");
  return {
    method: method.toUpperCase(),
    headers,
    signal,
    body: isJson ? JSON.stringify(body.json) : body.text,
  };
}

async function readBody({ body }: Response, target: string): Promise<string> {
  if (body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  // Leaving the loop early cancels the rest of the body.
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw tooLarge(target);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function tooLarge(target: string): McpvalsError {
  return new McpvalsError(
    "step/cannot-run",
    `the response to ${target} is larger than ${mostBytes} bytes, too large to look at`,
    { hint: "Ask for less, or read it with a command step that keeps a part." },
  );
}

/** What `fetch` says of the ports that browsers block, 6000 and 6667 among them. */
const blocked = "bad port";

/** The words at the bottom of what `fetch` throws; its own are always "fetch failed". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  if (cause instanceof Error) return reasonOf(cause);
  if (error.message === blocked) return "fetch does not use this port; let the server listen on another one";
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return code === "" || error.message.includes(code) ? error.message : `${error.message} (${code})`;
}
