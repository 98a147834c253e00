import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** Decides about a request before anything else: what is to be answered instead, or undefined where it may go on. */
export type Access = (request: Request) => Promise<Response | undefined>;

/** Refuses requests that pages elsewhere make, and other methods than GET and HEAD. */
export function refuseForeign(request: Request): Response | undefined {
  const { method, headers, url } = request;
  if (method !== "GET" && method !== "HEAD")
    return refusal(405, "The dashboard only answers GET.", { allow: "GET, HEAD" });
  const site = headers.get("sec-fetch-site") ?? "none";
  const origin = headers.get("origin");
  const isForeign = origin !== null && hostOf(origin) !== (headers.get("host") ?? new URL(url).host);
  if (isForeign || (site !== "same-origin" && site !== "none"))
    return refusal(403, "This address was opened by another page. Type it into the address bar instead.");
  return undefined;
}

/** Without the protocol: where a proxy ends TLS, the request has another one than the page. */
function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

/** Whether a request is to this machine by a name that no one else can give to another: not so after DNS rebinding. */
export function isLoopback(request: Request, port?: number): boolean {
  const host = request.headers.get("host") ?? new URL(request.url).host;
  const [, name, given = "80"] = /^(localhost|127\.0\.0\.1|\[::1\])(?::(\d+))?$/i.exec(host) ?? [];
  return name !== undefined && (port === undefined || Number(given) === port);
}

/** Who may read a dashboard: whoever has a token of it. */
export interface TokenAccess {
  readonly access: Access;
  /** Stays valid as long as the dashboard runs. */
  readonly token: string;
  /** A token that is valid once: other users can see the command line that opens a browser. */
  readonly tokenForOnce: () => string;
}

/**
 * Lets a request go on that has a token: the first page in its address, which sets a cookie and leads to the address without the
 * token; everything else in the cookie. Refuses other hosts than this machine at this port.
 */
export function createTokenAccess(port: number): TokenAccess {
  const [token, session] = [randomToken(), randomToken()];
  const unused = new Set<string>();
  const cookie = `mcpvals-${port}`;
  return {
    token,
    tokenForOnce() {
      const once = randomToken();
      unused.add(once);
      return once;
    },
    async access(request) {
      if (!isLoopback(request, port))
        return refusal(421, `This is the dashboard of mcpvals. Its address is http://127.0.0.1:${port}`);
      const url = new URL(request.url);
      const given = url.searchParams.get("token");
      if (given !== null && (equal(given, token) || unused.delete(given))) {
        url.searchParams.delete("token");
        const headers = {
          // `//host` would lead to that host.
          location: `${url.pathname.replace(/^\/+/, "/")}${url.search}`,
          "set-cookie": `${cookie}=${session}; Path=/; HttpOnly; SameSite=Strict`,
        };
        return new Response(null, { status: 303, headers });
      }
      const cookies = (request.headers.get("cookie") ?? "").split(/;\s*/);
      const own = cookies.find((each) => each.startsWith(`${cookie}=`));
      if (own !== undefined && equal(own.slice(cookie.length + 1), session)) return undefined;
      return refusal(
        401,
        "This address lacks the token. Open the address that mcpvals printed, with ?token= in it.",
      );
    },
  };
}

function randomToken(): string {
  return randomBytes(24).toString("base64url");
}

/** In a time that does not depend on where they differ. */
function equal(left: string, right: string): boolean {
  const [a, b] = [left, right].map((text) => createHash("sha256").update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}

/** An answer without anything of a run. `message` has nothing that comes from outside. */
export function refusal(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return Response.json({ message }, { status, headers });
}
