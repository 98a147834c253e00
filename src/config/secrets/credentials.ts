/**
 * What is secret in the value of a header: all of it, of `Bearer X` and the like also X alone, and of `Basic` what it
 * encodes: the user with the password, and the password.
 */
export function credentialsIn(value: string): readonly string[] {
  const [, scheme = "", credentials] = /^([A-Za-z][\w-]*)\s+(\S+)$/.exec(value) ?? [];
  if (credentials === undefined) return [value];
  return [value, credentials, ...(scheme.toLowerCase() === "basic" ? userAndPassword(credentials) : [])];
}

function userAndPassword(encoded: string): string[] {
  const pair = Buffer.from(encoded, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon === -1 ? [] : [pair, pair.slice(colon + 1)];
}

/** Shorter values of cookies are settings. */
const shortestCookie = 8;

/** The values in the header `Cookie` that may be secret. */
export function cookiesIn(value: string): readonly string[] {
  const values = value.split(/;\s*/).map((pair) => pair.slice(pair.indexOf("=") + 1));
  return values.filter((each) => each.length >= shortestCookie);
}
