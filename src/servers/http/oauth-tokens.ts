import { shortened } from "../../base/visible-text.ts";
import { maxFileBytes } from "../../base/limits.ts";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { randomBytes } from "node:crypto";
import { realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import type {
  AuthorizationServerMetadata,
  FetchLike,
  OAuthProtectedResourceMetadata,
  OAuthTokens,
} from "@modelcontextprotocol/client";
import { isJsonObject, withoutUndefined, type Json, type JsonObject } from "../../base/json.ts";
import type { OAuthSpec } from "../../model/server.ts";
import { createRedactor, isTraceWord, type Secret } from "../../trace/redact.ts";
import { readRegularFile } from "../../base/files.ts";
import { boundedFetch } from "../../process/bounded-fetch.ts";
import { abortAfter } from "../../process/deadline.ts";
import { loadSdk, type Sdk } from "../client/session.ts";
import { displayUrl } from "./http-errors.ts";

/** A server with its url, and how to get tokens for it. */
export interface ProtectedServer {
  readonly url: string;
  readonly auth: OAuthSpec;
}

/** What the server's 401 response says about the tokens that it needs. */
export interface TokenHint {
  readonly resourceMetadataUrl?: URL | undefined;
  readonly scope?: string | undefined;
}

type Stored = Extract<OAuthSpec, { kind: "stored" }>;
type Credentials = Extract<OAuthSpec, { kind: "client-credentials" }>;

/** Time limit for getting a token, with all requests, in milliseconds. */
const defaultMs = 30_000;
/** Longest access token: it has to fit into a header. */
const maxTokenLength = 8 * 1024;

/**
 * The access token of one server, for all trials: requests that need a new one at the same time wait for the same renewal. The
 * SDK's `withOAuth` would renew it once for each of them, and with the authorization server that the tested server names.
 */
export class TokenSource {
  readonly #server: ProtectedServer;
  readonly #secrets = new Map<string, Secret>();
  readonly #announce: (secret: Secret) => void;
  readonly #mostMs: number;
  #token: string | undefined;
  #reading: Promise<StoredTokens> | undefined;
  #renewing: Promise<string> | undefined;

  /** `announce` gets every secret before it is first used; getting a token takes `mostMs` milliseconds at most. */
  constructor(server: ProtectedServer, announce: (secret: Secret) => void, mostMs: number = defaultMs) {
    this.#server = server;
    this.#announce = announce;
    this.#mostMs = mostMs;
    this.#keep("client_secret", server.auth.clientSecret);
  }

  /** All secrets so far, also expired ones. */
  get secrets(): readonly Secret[] {
    return [...this.#secrets.values()];
  }

  /** Removes all secrets from a text. */
  readonly clean = (text: string): string => createRedactor(this.secrets)(text);

  /** The current token; undefined when there is none yet. Throws `server/unauthorized` for an unusable file. */
  async current(): Promise<string | undefined> {
    const { auth } = this.#server;
    if (auth.kind === "stored" && this.#token === undefined) {
      this.#reading ??= this.#read(auth).finally(() => (this.#reading = undefined));
      const { access } = await this.#reading;
      this.#token ??= access;
    }
    return this.#token;
  }

  /** Replaces a token that was refused. Throws `server/unauthorized`. */
  renew(used: string | undefined, hint: TokenHint): Promise<string> {
    if (this.#token !== undefined && this.#token !== used) return Promise.resolve(this.#token);
    this.#renewing ??= this.#renew(used, hint).finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  async #renew(used: string | undefined, hint: TokenHint): Promise<string> {
    const { auth } = this.#server;
    this.#token =
      auth.kind === "stored" ? await this.#refresh(auth, used, hint) : await this.#request(auth, hint);
    return this.#token;
  }

  #request(auth: Credentials, hint: TokenHint): Promise<string> {
    const { clientId, clientSecret } = auth;
    return this.#ask(hint, auth.issuer, async ({ sdk, issuer, resourceMetadata, ...request }) => {
      const scope = auth.scope ?? hint.scope ?? resourceMetadata?.scopes_supported?.join(" ");
      const client = { clientId, clientSecret, clientName: "mcpvals", expectedIssuer: issuer };
      const provider = new sdk.ClientCredentialsProvider(client);
      const { access_token: token } = await sdk.fetchToken(provider, issuer, {
        ...request,
        ...(scope === undefined ? {} : { scope }),
      });
      return this.#keep("access_token", usable(token));
    });
  }

  /** Another process may have refreshed the tokens; many refresh tokens can be used only once. */
  async #refresh(auth: Stored, used: string | undefined, hint: TokenHint): Promise<string> {
    const { content, access, refresh, clientId, clientSecret, issuer } = await this.#read(auth);
    if (access !== undefined && access !== used) return access;
    if (refresh === undefined)
      throw this.#unusable(auth, "the stored access token was refused, and there is no refresh_token", logIn);
    if (clientId === undefined)
      throw this.#unusable(auth, "there is no client id to refresh with", "Give `clientId` in `auth`.");
    return this.#ask(
      hint,
      issuer,
      async ({ sdk, issuer: asked, resourceMetadata: _resourceMetadata, ...request }) => {
        const tokens = await sdk.refreshAuthorization(asked, {
          ...request,
          clientInformation: withoutUndefined({ client_id: clientId, client_secret: clientSecret }),
          refreshToken: refresh,
        });
        this.#keep("refresh_token", tokens.refresh_token);
        this.#keep("id_token", tokens.id_token);
        const token = this.#keep("access_token", usable(tokens.access_token));
        const merged = { ...content, ...replaced(tokens), ...expiry(content, tokens) };
        await this.#try(auth, "written", () => writeTokenFile(auth.file, merged));
        return token;
      },
    );
  }

  /**
   * Requests a token from the authorization server that the user named, and from no other: the tested server could name any.
   * Throws `server/unauthorized`.
   */
  async #ask(
    { resourceMetadataUrl }: TokenHint,
    issuer: string | undefined,
    work: (request: TokenRequest) => Promise<string>,
  ): Promise<string> {
    const sdk = await loadSdk();
    let step: TokenStep = "discovery";
    const late = (): Error => new Error(`it took more than ${this.#mostMs / 1000} seconds`);
    // Not bound to a trial, since the token is for all trials.
    using deadline = abortAfter(this.#mostMs, late);
    const bounded = boundedFetch({
      // Of all responses together.
      bytes: 1024 * 1024,
      values: 10_000,
      onTooMuch: (more) => new Error(`its answers have more than ${more}`),
    });
    const fetchFn: FetchLike = (url, init) => bounded(url, { ...init, signal: deadline.signal });
    const { url } = this.#server;
    try {
      // The metadata of the protected resource (RFC 9728) at its own origin; undefined when there is none.
      const own = resourceMetadataUrl?.origin === new URL(url).origin ? { resourceMetadataUrl } : {};
      const resourceMetadata = await sdk
        .discoverOAuthProtectedResourceMetadata(url, own, fetchFn)
        .catch(() => undefined);
      const named = resourceMetadata?.authorization_servers ?? [];
      if (issuer === undefined) throw this.#noIssuer(named[0]);
      const same = named.find((each) => each.replace(/\/$/, "") === issuer.replace(/\/$/, ""));
      if (named.length > 0 && same === undefined)
        throw new Error(`it is ${named.map(displayUrl).join(" or ")} and not the expected ${issuer}`);
      const metadata = await sdk.discoverAuthorizationServerMetadata(same ?? issuer, { fetchFn });
      const resource = resourceMetadata?.resource;
      if (
        resource !== undefined &&
        !sdk.checkResourceAllowed({
          requestedResource: sdk.resourceUrlFromServerUrl(url),
          configuredResource: resource,
        })
      )
        throw new Error(`the server's metadata is about another resource: ${displayUrl(resource)}`);
      step = metadata === undefined ? "guess" : "token";
      return await work(withoutUndefined({ sdk, issuer, fetchFn, resourceMetadata, metadata, resource }));
    } catch (error) {
      throw this.#explain(error, step, issuer, sdk);
    }
  }

  async #read(auth: Stored): Promise<StoredTokens> {
    const content = await this.#try(auth, "read", () => readTokenFile(auth.file));
    const clientSecret = auth.clientSecret ?? textOf(content["client_secret"]);
    const [access, refresh] = [textOf(content["access_token"]), textOf(content["refresh_token"])];
    const clientId = auth.clientId ?? textOf(content["client_id"]);
    this.#keep("client_secret", clientSecret);
    this.#keep("refresh_token", refresh);
    this.#keep("access_token", access);
    if (access === undefined && refresh === undefined)
      throw this.#unusable(auth, "there is neither an access_token nor a refresh_token", logIn);
    const issuer = auth.issuer ?? textOf(content["issuer"]);
    return { content, access, refresh, clientId, clientSecret, issuer };
  }

  async #try<T>(auth: Stored, what: string, work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const reason = messageOf(error);
      throw this.#unusable(auth, `it cannot be ${what}: ${this.clean(reason)}`, "Check `file` of `auth`.");
    }
  }

  /** Notes a secret, and announces it before it is used. */
  #keep<T extends string | undefined>(name: string, value: T): T {
    if (value === undefined || this.#secrets.has(value) || isTraceWord(value)) return value;
    const secret = { name, value };
    this.#secrets.set(value, secret);
    this.#announce(secret);
    return value;
  }

  #unauthorized(what: string, hint: string): McpvalsError {
    return unauthorized(this.#server, what, hint);
  }

  #unusable({ file }: Stored, problem: string, hint: string): McpvalsError {
    return this.#unauthorized(`the tokens in ${file}: ${problem}`, hint);
  }

  /** The error when the user named no authorization server; `named` is the one that the server names. */
  #noIssuer(named: string | undefined): McpvalsError {
    const what = "nothing says which authorization server may see the secret";
    if (named === undefined)
      return this.#unauthorized(what, "Give the address of the authorization server as `issuer` of `auth`.");
    const hint = `If the secret is meant for it, write \`issuer: ${displayUrl(named)}\` into \`auth\`.`;
    return this.#unauthorized(`${what}; the server names ${displayUrl(named)}`, hint);
  }

  /** The error for a token that could not be obtained. */
  #explain(error: unknown, step: TokenStep, issuer: string | undefined, sdk: Sdk): McpvalsError {
    if (error instanceof McpvalsError) return error;
    const place = issuer === undefined ? "the authorization server" : displayUrl(issuer);
    const why = this.#excerpt(error);
    if (step === "discovery")
      return this.#unauthorized(
        `its authorization server was not found: ${why}`,
        "Check `issuer` of `auth`, and that the authorization server runs.",
      );
    if (step === "guess")
      return this.#unauthorized(
        `${place} has no metadata, and gave no token: ${why}`,
        "An authorization server names its token endpoint in its metadata (RFC 8414); check `issuer` of `auth`.",
      );
    if (error instanceof sdk.OAuthError)
      return this.#unauthorized(
        `${place} refused a token: ${error.code}: ${why}`,
        hints[error.code] ?? "See the authorization server's own log for why.",
      );
    return this.#unauthorized(
      `${place} gave no token: ${why}`,
      "Check that the authorization server runs, and that its metadata names the right token endpoint.",
    );
  }

  /** The message of the innermost cause, in one line and without secrets. */
  #excerpt(error: unknown): string {
    let message = messageOf(error);
    for (let cause = error; cause instanceof Error; cause = cause.cause) message = cause.message || message;
    const own = message.replace(/Invalid OAuth error response: [\s\S]*Raw body: /, "");
    return shortened(this.clean(own).replaceAll(/\s+/g, " ").trim(), 300);
  }
}

const logIn = "Log in again with the program that wrote the file.";

const hints: Readonly<Record<string, string>> = {
  invalid_client: "Check the client id and the client secret of `auth`.",
  unauthorized_client: "Allow this kind of grant for the client, at the authorization server.",
  invalid_grant: "The refresh token is not good any more: log in again with the program that wrote the file.",
  invalid_scope: "Check the scope of `auth`.",
  invalid_target: "The authorization server does not give tokens for this url.",
};

/** The step that failed; `guess`: there was no metadata that names the token endpoint. */
type TokenStep = "discovery" | "guess" | "token";

interface TokenRequest {
  readonly sdk: Sdk;
  readonly issuer: string;
  readonly fetchFn: FetchLike;
  readonly resourceMetadata?: OAuthProtectedResourceMetadata;
  readonly metadata?: AuthorizationServerMetadata;
  readonly resource?: string;
}

interface StoredTokens {
  readonly content: JsonObject;
  readonly access: string | undefined;
  readonly refresh: string | undefined;
  readonly clientId: string | undefined;
  readonly clientSecret: string | undefined;
  readonly issuer: string | undefined;
}

function unauthorized({ url }: ProtectedServer, what: string, hint: string): McpvalsError {
  return new McpvalsError("server/unauthorized", `no access to ${displayUrl(url)}: ${what}`, { hint });
}

export function refusedAgain(server: ProtectedServer, { clean }: TokenSource): McpvalsError {
  return unauthorized(
    server,
    clean("it refuses the new access token as well, with HTTP 401"),
    "Check that the token has the scope that the server needs, and this url as its audience.",
  );
}

/** Throws for a token that no header can carry; the message has no part of it. */
function usable(token: string): string {
  if (token.length > maxTokenLength) throw new Error(`the token is longer than ${maxTokenLength} characters`);
  if (!/^[!-~]+$/.test(token)) throw new Error("the token has characters that are not allowed in a header");
  return token;
}

/** The members of the file that a refresh replaces. */
function replaced(tokens: OAuthTokens): JsonObject {
  const { access_token, refresh_token, expires_in, scope, token_type, id_token } = tokens;
  return withoutUndefined({ access_token, refresh_token, expires_in, scope, token_type, id_token });
}

/** When the new token expires, in the unit of the file: seconds or milliseconds since the Unix epoch. */
function expiry({ expires_at: known }: JsonObject, { expires_in: seconds }: OAuthTokens): JsonObject {
  if (typeof known !== "number" || seconds === undefined) return {};
  const endsAt = Date.now() + seconds * 1000;
  return { expires_at: known > 1e11 ? endsAt : Math.round(endsAt / 1000) };
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Reads a file with tokens; throws an Error that says what is wrong with it. */
function readTokenFile(path: string): JsonObject {
  const text = readRegularFile(path, maxFileBytes).toString("utf8");
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    // The parser's own message would quote the text, which has tokens.
    throw new Error("it is not JSON");
  }
  if (!isJsonObject(value)) throw new Error("it is not a JSON object");
  return value;
}

/** Replaces the file atomically, with the same permissions. */
async function writeTokenFile(path: string, tokens: JsonObject): Promise<void> {
  const target = await realpath(path);
  const { mode } = await stat(target);
  const written = `${target}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(written, `${JSON.stringify(tokens, undefined, 2)}\n`, { flag: "wx", mode: mode & 0o777 });
    await rename(written, target);
  } catch (error) {
    await rm(written, { force: true });
    throw error;
  }
}

/** One for each server and way to get its tokens, so that all trials share them. */
const sources = new Map<string, TokenSource>();
const listeners = new Set<(secret: Secret) => void>();

export function tokenSourceOf(server: ProtectedServer): TokenSource {
  const key = JSON.stringify([server.url, server.auth]);
  const known = sources.get(key);
  if (known !== undefined) return known;
  const source = new TokenSource(server, (secret) => {
    for (const listener of listeners) listener(secret);
  });
  sources.set(key, source);
  return source;
}

/**
 * Calls the listener with every token before it is first used, and at once with those that are known, so that none is ever
 * written. Tokens are forgotten when there is no listener.
 */
export function onTokenIssued(listener: (secret: Secret) => void): Disposable {
  if (listeners.size === 0) sources.clear();
  const own = (secret: Secret): void => listener(secret);
  listeners.add(own);
  for (const source of sources.values()) for (const secret of source.secrets) own(secret);
  return {
    [Symbol.dispose]() {
      listeners.delete(own);
      if (listeners.size === 0) sources.clear();
    },
  };
}
