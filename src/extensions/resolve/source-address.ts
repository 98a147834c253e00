import { McpvalsError } from "../../core/errors/error.ts";

/** Base address of GitHub's API. */
const githubApi = "https://api.github.com";

/**
 * Throws McpvalsError `extension/source-not-allowed` for an address that releases of `base` must not be fetched from:
 * another origin, except that GitHub's API leads to GitHub's files; and what is neither https nor loopback. `from` is the
 * address that led there.
 */
export function checkAddress(address: URL, base: URL, from: string): void {
  if (!isPrivate(address)) {
    throw notAllowed(`${from} leads to ${shown(address)}, which is not https`);
  }
  if (hasUser(address)) throw notAllowed(`${from} leads to ${shown(address)} with a user's name in it`);
  if (address.origin === base.origin || (base.origin === githubApi && isOfGithub(address))) return;
  throw notAllowed(`${from} leads to ${shown(address)}, another source than ${base.origin}`);
}

/** The base address of releases. Throws McpvalsError `extension/source-not-allowed` for one that cannot be used. */
export function baseAddress(text: string = githubApi): URL {
  const base = URL.parse(text);
  if (base === null) throw notAllowed(`releasesUrl is no address: ${text}`);
  if (!isPrivate(base)) throw notAllowed(`releasesUrl is not https: ${shown(base)}`);
  if (hasUser(base)) throw notAllowed(`releasesUrl has a user's name in it: ${shown(base)}`);
  if (base.search !== "") throw notAllowed(`releasesUrl has a question mark: ${shown(base)}`);
  return base;
}

/** Without what could be a secret in it. */
export function shown(address: URL): string {
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
