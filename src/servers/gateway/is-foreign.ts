import type { IncomingMessage } from "node:http";

const loopback = ["127.0.0.1", "localhost", "[::1]"];

/**
 * Whether a request was made for another address, or by a page of another site: a browser that was led here by a name of
 * somebody else's (DNS rebinding).
 */
export function isForeign({ headers }: IncomingMessage): boolean {
  return (
    !isLoopback(`http://${headers.host ?? ""}`) ||
    (headers.origin !== undefined && !isLoopback(headers.origin))
  );
}

function isLoopback(url: string): boolean {
  return URL.canParse(url) && loopback.includes(new URL(url).hostname);
}
