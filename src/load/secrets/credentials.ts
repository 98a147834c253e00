/** Schemes of `Authorization` that many servers have; naming one tells nothing. */
const knownScheme = /^(?:apikey|basic|bearer|dpop|key|token)$/i;
/** Shorter credentials are not looked for by themselves. */
const shortestCredentials = 4;

/**
 * What is secret in the value of a header: all of it, but of `Bearer X` and the like only X, and of `Basic` also what it
 * encodes: the user with the password, and the password.
 */
export function credentialsIn(value: string): readonly string[] {
  const [, scheme = "", credentials] = /^([A-Za-z][\w-]*)\s+(\S+)$/.exec(value) ?? [];
  if (credentials === undefined) return [value];
  const tellsNothing = knownScheme.test(scheme) && credentials.length >= shortestCredentials;
  return [
    ...(tellsNothing ? [] : [value]),
    credentials,
    ...(scheme.toLowerCase() === "basic" ? userAndPassword(credentials) : []),
  ];
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
