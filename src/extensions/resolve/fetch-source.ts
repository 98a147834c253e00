import { McpvalsError } from "../../core/errors/error.ts";
import { abortAfter, pause } from "../../process/deadline.ts";

export interface FetchOptions {
  /** Where releases come from; redirects stay there. */
  readonly base: URL;
  readonly signal: AbortSignal;
  readonly accept: string;
  /** Longest time without an answer or a piece of it, in milliseconds. Default: 30 seconds. */
  readonly silenceMs?: number;
  /** Longest time for all of it, in milliseconds. Default: half an hour. */
  readonly mostMs?: number;
}

/** A body that is being fetched. */
export type Body = AsyncIterable<Uint8Array>;

/**
 * Fetches an address and passes its body to `read`; undefined for 404. Follows at most five redirects that `checkAddress`
 * allows. Failed connections and errors of the server are tried a second time, `read` included. Throws McpvalsError
 * `extension/unreachable` with the cause, `extension/source-not-allowed`, what `read` throws as McpvalsError, and the
 * signal's reason.
 */
export async function fetchSource<T>(
  address: string,
  options: FetchOptions,
  read: (body: Body) => Promise<T>,
): Promise<T | undefined> {
  const { mostMs = defaultMostMs } = options;
  const late = (): McpvalsError => unreachable(address, `it took more than ${mostMs / 1000} seconds`);
  using limit = abortAfter(mostMs, late, options.signal);
  const { signal } = limit;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await fetchOnce(address, { ...options, signal }, read);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof McpvalsError) throw error;
      if (attempt === attempts) throw unreachable(address, messageOf(error), error);
      await pause(retryMs, signal);
    }
  }
}

const attempts = 2;
const retryMs = 300;
const mostRedirects = 5;
const defaultSilenceMs = 30_000;
const defaultMostMs = 30 * 60_000;

/** The error `extension/unreachable` for an address; `why` ends the sentence. */
export function unreachable(address: string, why: string, cause?: unknown): McpvalsError {
  return new McpvalsError("extension/unreachable", `${withoutQuery(address)} could not be fetched: ${why}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: "Check the network and releasesUrl. With the extension in the cache and in the lock no network is needed.",
  });
}

async function fetchOnce<T>(
  address: string,
  options: FetchOptions,
  read: (body: Body) => Promise<T>,
): Promise<T | undefined> {
  const silence = new Silence(options.silenceMs ?? defaultSilenceMs, options.signal);
  try {
    const response = await follow(address, options, silence.signal);
    if (!response.ok) {
      await response.body?.cancel();
      if (response.status === 404) return undefined;
      throw refusal(address, response);
    }
    return await read(silence.watch(response.body ?? []));
  } catch (error) {
    throw silence.isOver ? silence.signal.reason : error;
  } finally {
    silence.end();
  }
}

async function follow(
  address: string,
  { base, accept }: FetchOptions,
  signal: AbortSignal,
): Promise<Response> {
  let url = new URL(address);
  let from = `the list of releases of ${base.origin}`;
  for (let redirects = 0; ; redirects += 1) {
    checkAddress(url, base, from);
    const headers = { accept, "accept-encoding": "identity", "user-agent": "mcpvals" };
    const response = await fetch(url, { redirect: "manual", headers, signal });
    const location = response.headers.get("location");
    if (response.status < 300 || response.status > 399 || location === null) return response;
    await response.body?.cancel();
    if (redirects === mostRedirects) {
      throw unreachable(address, `it redirects more than ${mostRedirects} times`);
    }
    from = shown(url);
    url = new URL(location, url);
  }
}

/** An Error for a response that is worth another try, else an McpvalsError. */
function refusal(address: string, { status, statusText, headers }: Response): Error {
  if (status >= 500) return new Error(`the server answered ${status} ${statusText}`.trim());
  const isLimited = headers.get("x-ratelimit-remaining") === "0" || headers.has("retry-after");
  if (status === 429 || (status === 403 && isLimited)) {
    return unreachable(address, `its limit of requests is used up${untilText(headers)}`);
  }
  return unreachable(address, `the server answered ${status} ${statusText}`.trim());
}

function untilText(headers: Headers): string {
  const reset = Number(headers.get("x-ratelimit-reset"));
  if (reset > 0) return `; more are allowed from ${new Date(reset * 1000).toISOString()} on`;
  const seconds = headers.get("retry-after");
  return seconds === null ? "" : `; try again in ${seconds} seconds`;
}

/** Aborts a request that sends nothing for too long. */
class Silence {
  readonly #ms: number;
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal;
  #limit: ReturnType<typeof abortAfter>;
  isOver = false;

  constructor(ms: number, parent: AbortSignal) {
    parent.throwIfAborted();
    this.#ms = ms;
    this.#parent = parent;
    this.#limit = this.#begin();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  async *watch(body: Body | readonly Uint8Array[]): Body {
    for await (const chunk of body) {
      this.#limit[Symbol.dispose]();
      yield chunk;
      this.#limit = this.#begin();
    }
  }

  end(): void {
    this.#limit[Symbol.dispose]();
  }

  #begin(): ReturnType<typeof abortAfter> {
    const late = (): Error => {
      this.isOver = true;
      return new Error(`nothing came for ${this.#ms} ms`);
    };
    const limit = abortAfter(this.#ms, late, this.#parent);
    limit.signal.addEventListener("abort", () => this.#controller.abort(limit.signal.reason), { once: true });
    return limit;
  }
}

function withoutQuery(address: string): string {
  return shown(new URL(address));
}

/** The message of `fetch` itself says only that it failed. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause: unknown = error.cause;
  return cause instanceof Error && cause.message !== ""
    ? `${error.message}: ${cause.message}`
    : error.message;
}

/** Base address of GitHub's API. */
const githubApi = "https://api.github.com";

/**
 * Throws McpvalsError `extension/source-not-allowed` for an address that releases of `base` must not come from: another
 * origin, except files of GitHub for GitHub's API; and one that is neither https nor loopback. `from` is the address that
 * led there.
 */
export function checkAddress(address: URL, base: URL, from: string): void {
  if (!isPrivate(address)) {
    throw notAllowed(`${from} leads to ${shown(address)}, which is not https`);
  }
  if (hasUser(address)) throw notAllowed(`${from} leads to ${shown(address)} with a user's name in it`);
  if (address.origin === base.origin || (base.origin === githubApi && isOfGithub(address))) return;
  throw notAllowed(`${from} leads to ${shown(address)}, another source than ${base.origin}`);
}

/** Parses the base address of releases. Throws McpvalsError `extension/source-not-allowed` for an invalid one. */
export function baseAddress(text: string = githubApi): URL {
  const base = URL.parse(text);
  if (base === null) throw notAllowed(`releasesUrl is no address: ${text}`);
  if (!isPrivate(base)) throw notAllowed(`releasesUrl is not https: ${shown(base)}`);
  if (hasUser(base)) throw notAllowed(`releasesUrl has a user's name in it: ${shown(base)}`);
  if (base.search !== "") throw notAllowed(`releasesUrl has a question mark: ${shown(base)}`);
  return base;
}

/** Without the query, which may contain a secret. */
function shown(address: URL): string {
  return `${address.origin}${address.pathname}`;
}

function notAllowed(message: string): McpvalsError {
  return new McpvalsError("extension/source-not-allowed", `${message}. Nothing was fetched from there.`, {
    hint: "Files come only from the place that releasesUrl names, with https. A mirror has to serve the files itself.",
  });
}

function isPrivate({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname));
}

function hasUser({ username, password }: URL): boolean {
  return username !== "" || password !== "";
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
}

function isOfGithub({ protocol, port, hostname }: URL): boolean {
  const known = hostname === "github.com" || hostname.endsWith(".githubusercontent.com");
  return protocol === "https:" && port === "" && known;
}
