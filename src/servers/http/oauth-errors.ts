import { McpvalsError } from "../../core/errors/error.ts";
import type { Sdk } from "../client/sdk.ts";
import { shownUrl } from "./http-errors.ts";
import type { ProtectedServer } from "./oauth-tokens.ts";

/** Removes what is secret from a text. */
type Clean = (text: string) => string;

/** What was going on when no token could be had; `guess`: nothing said where tokens come from. */
export type TokenStep = "discovery" | "guess" | "token";

export interface TokenFailure {
  readonly step: TokenStep;
  /** Address of the authorization server, as far as it is known. */
  readonly issuer?: string;
  readonly sdk: Sdk;
  readonly clean: Clean;
}

/** Says why there is no token: an McpvalsError `server/unauthorized`. */
export function explainTokenFailure(
  server: ProtectedServer,
  error: unknown,
  { step, issuer, sdk, clean }: TokenFailure,
): McpvalsError {
  if (error instanceof McpvalsError) return error;
  const place = issuer === undefined ? "the authorization server" : shownUrl(issuer);
  if (step === "discovery")
    return unauthorized(server, `its authorization server was not found: ${excerpt(error, clean)}`, {
      hint: "Is `issuer` of `auth` right, and is it there?",
    });
  if (step === "guess")
    return unauthorized(server, `${place} has no metadata, and gave no token: ${excerpt(error, clean)}`, {
      hint: "An authorization server names its token endpoint in its metadata (RFC 8414); is `issuer` of `auth` right?",
    });
  if (error instanceof sdk.OAuthError)
    return unauthorized(server, `${place} refused a token: ${error.code}: ${excerpt(error, clean)}`, {
      hint: hints[error.code] ?? "See the authorization server's own log for why.",
    });
  return unauthorized(server, `${place} gave no token: ${excerpt(error, clean)}`, {
    hint: "Check that the authorization server runs, and that its metadata names the right token endpoint.",
  });
}

const hints: Readonly<Record<string, string>> = {
  invalid_client: "Check the client id and the client secret of `auth`.",
  unauthorized_client: "Allow this kind of grant for the client, at the authorization server.",
  invalid_grant: "The refresh token is not good any more: log in again with the program that wrote the file.",
  invalid_scope: "Check the scope of `auth`.",
  invalid_target: "The authorization server does not give tokens for this url.",
};

/** The error for a secret that may go to nobody, since the user named no authorization server; `named` are the server's own. */
export function noIssuer(server: ProtectedServer, named: readonly string[]): McpvalsError {
  const [first] = named;
  const what = first === undefined ? "" : `; the server names ${shownUrl(first)}`;
  return unauthorized(server, `nothing says which authorization server may see the secret${what}`, {
    hint:
      first === undefined
        ? "Give the address of the authorization server as `issuer` of `auth`."
        : `If the secret is meant for it, write \`issuer: ${shownUrl(first)}\` into \`auth\`.`,
  });
}

/** The error for a server that wants one new token after the other. */
export function tooManyTokens(server: ProtectedServer, most: number): McpvalsError {
  return unauthorized(server, `it has wanted a new token ${most} times in one run`, {
    hint: "See the server's own log for why it refuses tokens that it has taken before.",
  });
}

/** The error for a server that refuses a token that it has just been given. */
export function refusedAgain(server: ProtectedServer, clean: Clean): McpvalsError {
  return unauthorized(server, clean("it refuses the new access token as well, with HTTP 401"), {
    hint: "Does the token allow what the server wants (scope), and is it meant for this url (audience)?",
  });
}

/** The error for tokens in a file that cannot be used. */
export function unusableFile(server: ProtectedServer, problem: string, hint: string): McpvalsError {
  return unauthorized(server, problem, { hint });
}

function unauthorized(
  { url }: ProtectedServer,
  what: string,
  { hint }: { readonly hint: string },
): McpvalsError {
  return new McpvalsError("server/unauthorized", `no access to ${shownUrl(url)}: ${what}`, { hint });
}

const longestExcerpt = 300;

/** The bottom of it in one line, without secrets: that of `fetch` itself is always "fetch failed". No cause is kept. */
function excerpt(error: unknown, clean: Clean): string {
  let message = error instanceof Error ? error.message : String(error);
  for (let cause = error; cause instanceof Error; cause = cause.cause) message = cause.message || message;
  const told = message.replace(/Invalid OAuth error response: [\s\S]*Raw body: /, "");
  const line = clean(told).replaceAll(/\s+/g, " ").trim();
  return line.length > longestExcerpt ? `${line.slice(0, longestExcerpt)}…` : line;
}
