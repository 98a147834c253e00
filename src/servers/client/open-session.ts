import { McpvalsError, messageOf } from "../../core/errors/error.ts";
import type { Client, CreateMessageResult, ElicitResult } from "@modelcontextprotocol/client";
import type { ErrorCode } from "../../core/errors/catalogue.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import type { JsonObject, ServerSpec } from "../../core/formats/model.ts";
import { shortened } from "../../core/text/visible-text.ts";
import type { Emit } from "../../core/trace/events.ts";
import { abortAfter, untilAborted } from "../../process/deadline.ts";
import {
  type ConnectOptions,
  HttpNoAnswer,
  type ServerConnection,
  type ServerHost,
  unusableAnswer,
} from "../connections/host.ts";
import { errorCodes, modernVersion } from "../messages/json-rpc.ts";
import {
  ClientSession,
  type ClientSide,
  listTools,
  loadSdk,
  noTimeout,
  type Sdk,
  type ServerSession,
} from "./session.ts";

export interface StartOptions {
  readonly emit: Emit;
  /** Aborts the start. */
  readonly signal: AbortSignal;
  /** Version of mcpvals, for `clientInfo`. */
  readonly version: string;
  /** What the server can ask of the client; absent: nothing. */
  readonly clientSide?: ClientSide;
}

export interface SessionOptions extends StartOptions {
  readonly connect?: ConnectOptions;
  /** Called before the connection ends, also when the session does not start. Never throws. */
  readonly end?: () => Promise<void>;
  /** When the start began, by `performance.now()`; absent: now. */
  readonly started?: number;
}

/** A request that a server has to answer before it counts as healthy. */
type HandshakeStep = "initialize" | "server/discover" | "tools/list";

/** The reason of the signal when the startup timeout is over. */
const timeUp = Symbol("startup timeout");

/**
 * Opens a session with a server and waits until it is healthy: handshake and all of `tools/list` within the startup timeout. Throws McpvalsError (`server/exited`, `server/handshake-timeout`, `server/protocol-error`,
 * `server/message-too-large`, `server/http-status`, `server/unreachable`) or the signal's reason; the session has ended by
 * then.
 */
export async function openSession(
  host: ServerHost,
  spec: ServerSpec,
  options: SessionOptions,
): Promise<ServerSession> {
  const { emit, signal, started = performance.now() } = options;
  using deadline = abortAfter(spec.startupTimeoutMs, () => timeUp, signal);
  const connection = host.connect(emit, options.connect);
  const stop = async (): Promise<void> => {
    await options.end?.();
    await connection.stop();
  };
  // A process takes about as long to start up as the SDK takes to load.
  const loading = loadSdk();
  const lost = AbortSignal.any([deadline.signal, connection.lost]);
  let step: HandshakeStep = "initialize";
  try {
    const sdk = await untilAborted(loading, lost);
    const opening = connectClient(sdk, connection, spec, options, lost, (next) => (step = next));
    const client = await untilAborted(opening, lost);
    step = "tools/list";
    const hasTools = client.getServerCapabilities()?.tools !== undefined;
    const listing = hasTools ? listTools(client, { signal: lost, timeout: noTimeout }) : [];
    const tools = await untilAborted(Promise.resolve(listing), lost);
    // Recorded once, with the session of the trial.
    if (options.connect?.agent !== true) {
      const { name = "", version = "" } = client.getServerVersion() ?? {};
      const protocolVersion = client.getNegotiatedProtocolVersion() ?? "";
      const durationMs = performance.now() - started;
      const facts = { name, version, protocolVersion, tools: tools.length, durationMs };
      emit({ type: "server.ready", server: host.name, ...facts });
    }
    return new ClientSession(connection, client, tools, sdk, stop);
  } catch (error) {
    await stop();
    signal.throwIfAborted();
    const timedOut = deadline.signal.reason === timeUp;
    throw explainFailure(error, connection, spec, step, await loading, timedOut);
  }
}

/** Uses the era of the spec, or else `initialize` first and the modern era where the server requires it. */
async function connectClient(
  sdk: Sdk,
  connection: ServerConnection,
  { protocol }: ServerSpec,
  options: StartOptions,
  signal: AbortSignal,
  onStep: (step: HandshakeStep) => void,
): Promise<Client> {
  const connect = async (isModern: boolean): Promise<Client> => {
    const { sampling, elicitation, roots } = options.clientSide ?? {};
    const client = new sdk.Client(
      { name: "mcpvals", version: options.version },
      {
        capabilities: {
          ...(sampling === undefined ? {} : { sampling: {} }),
          ...(elicitation === undefined ? {} : { elicitation: { form: {} } }),
          ...(roots === undefined ? {} : { roots: {} }),
        },
        ...(isModern ? { versionNegotiation: { mode: { pin: modernVersion } } } : {}),
      },
    );
    answerServer(client, options.clientSide ?? {}, connection.name);
    onStep(isModern ? "server/discover" : "initialize");
    await client.connect(connection, { signal, timeout: noTimeout });
    return client;
  };
  if (protocol !== undefined) return connect(protocol === "modern");
  try {
    return await connect(false);
  } catch (error) {
    if (!connection.takeOver()) throw error;
    return connect(true);
  }
}

/**
 * Sets the handlers for requests of the server; to be called before the client connects. Since 2026-07-28 servers answer a call
 * with `input_required` instead, which the SDK's client fulfils with the same handlers. An error of a handler becomes a JSON-RPC
 * error, and since 2026-07-28 ends the call. Elicitation with `mode: "url"` is not declared: the SDK refuses it with -32602.
 */
function answerServer(client: Client, { sampling, elicitation, roots }: ClientSide, server: string): void {
  if (sampling !== undefined)
    client.setRequestHandler(
      "sampling/createMessage",
      async ({ params }, { mcpReq }) =>
        // The SDK's client validates the result of a handler.
        (await sampling(params as JsonObject, mcpReq.signal)) as unknown as CreateMessageResult,
    );
  if (elicitation !== undefined)
    client.setRequestHandler(
      "elicitation/create",
      async ({ params }) => elicitation(params as JsonObject, { server }) as unknown as ElicitResult,
    );
  if (roots !== undefined)
    client.setRequestHandler("roots/list", () => ({ roots: roots.map((root) => ({ ...root })) }));
}

/**
 * Says why a server did not become healthy, in the order of what is known best: it is gone, its time was up, HTTP failed,
 * or it answered something unusable. `step` is the request that failed.
 */
function explainFailure(
  error: unknown,
  connection: ServerConnection,
  spec: ServerSpec,
  step: HandshakeStep,
  sdk: Sdk,
  timedOut: boolean,
): McpvalsError {
  const { stderrTail, firstInvalidLine, silentUrl, httpFailure } = connection.evidence();
  const lost: unknown = connection.lost.reason;
  const subject = `server "${connection.name}"`;
  const explained = (
    code: ErrorCode,
    message: string,
    { hint, detail, cause }: McpvalsError["details"],
  ): McpvalsError =>
    new McpvalsError(code, message, withoutUndefined({ hint, cause, detail: stderrTail ?? detail }));
  const noise =
    firstInvalidLine === undefined
      ? undefined
      : `the first line on its stdout that is not an MCP message: ${JSON.stringify(shortened(firstInvalidLine, 200))}`;

  if (lost instanceof McpvalsError) {
    if (lost.code === "server/unauthorized") return lost;
    // A variable that is missing is a usual reason to exit at the start.
    const environment =
      lost.code === "server/exited"
        ? "It gets only a small safe environment: pass more variables with `env`, `inheritEnv` or --env."
        : "";
    const hint = `${lost.details.hint ?? ""} ${environment}`.trim();
    const message = `${lost.message} before it had answered ${step}`;
    return explained(lost.code, message, { ...lost.details, ...(hint === "" ? {} : { hint }) });
  }
  if (timedOut) {
    const within = `within ${spec.startupTimeoutMs} ms`;
    if (silentUrl !== undefined)
      return explained(
        "server/handshake-timeout",
        `nothing answered at ${silentUrl} ${within}, though ${subject} was started`,
        {
          hint: "Check that it listens on the host and port of the url. Raise startupTimeout if it is only slow.",
        },
      );
    const message = `${subject} did not answer ${step} ${within}`;
    return explained("server/handshake-timeout", noise === undefined ? message : `${message}; ${noise}`, {
      hint:
        spec.transport !== "stdio"
          ? "Raise startupTimeout if it is only slow; else see the server's own log."
          : noise === undefined
            ? "Raise startupTimeout if it is only slow; stdout must carry nothing but MCP messages."
            : "Its stdout must carry nothing but MCP messages; logs belong on stderr.",
    });
  }
  if (httpFailure !== undefined) {
    // Servers of older versions refuse in many ways to be greeted in the newer one.
    if (step !== "server/discover" || httpFailure.code !== "server/http-status") return httpFailure;
    const { hint = "", ...details } = httpFailure.details;
    const asked = `It was asked to speak MCP ${modernVersion}: should it not, leave \`protocol\` out.`;
    return new McpvalsError(httpFailure.code, httpFailure.message, {
      ...details,
      hint: `${hint} ${asked}`.trim(),
    });
  }
  const message = messageOf(error);
  const other = otherVersion(error, step, sdk);
  // Errors that stand for an answer that could not be used, or never came, are not the server's.
  const isAnswer =
    error instanceof sdk.ProtocolError &&
    error.data !== unusableAnswer &&
    !(error.data instanceof HttpNoAnswer);
  const how = isAnswer
    ? `answered ${step} with an error: ${message} (code ${error.code})`
    : other === undefined
      ? `answered ${step} with something unusable: ${message}`
      : `does not speak MCP ${modernVersion}: ${message}`;
  const hint =
    other ??
    (spec.transport !== "stdio" && /content type/i.test(message)
      ? "Check the url: MCP servers answer with application/json or text/event-stream."
      : noise === undefined
        ? "Compare the answer, recorded as mcp.message, with the MCP specification."
        : `Besides, ${noise}; stdout must carry nothing but MCP messages.`);
  return explained("server/protocol-error", `${subject} ${how}`, { hint, cause: error });
}

/** What to do about a server that speaks other versions of MCP than it was asked to; undefined when that is not known. */
function otherVersion(error: unknown, step: HandshakeStep, sdk: Sdk): string | undefined {
  if (step === "server/discover") {
    const isOther =
      (error instanceof sdk.SdkError && error.code === sdk.SdkErrorCode.EraNegotiationFailed) ||
      error instanceof sdk.UnsupportedProtocolVersionError;
    return isOther ? "Leave `protocol` out, so that it is greeted with `initialize`." : undefined;
  }
  const isNewer = error instanceof sdk.ProtocolError && error.code === errorCodes.unsupportedVersion;
  return step === "initialize" && isNewer
    ? "It speaks newer versions of MCP only: leave `protocol` out, or write `protocol: modern`."
    : undefined;
}
