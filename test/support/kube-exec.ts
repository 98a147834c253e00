import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { type RawData, type WebSocket, WebSocketServer } from "ws";
import type { KubeStore } from "./kube-store.ts";

/** A program that is to be run in a container. */
export interface ExecCall {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly command: readonly string[];
  readonly stdin: string;
  /** Whether the end of standard input was told. */
  readonly ended: boolean;
}

/** How it ends. */
export interface ExecAnswer {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly exitCode?: number;
  /** Instead of an exit code: the program could not be run. */
  readonly failure?: string;
  /** The connection ends before anything is said. */
  readonly drop?: true;
  /** Nothing happens any more. */
  readonly hang?: true;
}

export interface ExecServer {
  readonly store: KubeStore;
  readonly run: (call: ExecCall) => ExecAnswer;
  readonly protocols: () => readonly string[];
  readonly refusal: (request: IncomingMessage) => { status: number; body: object } | undefined;
}

/** Lets a server run programs in containers, over WebSockets as kube-apiserver does. */
export function serveExec(server: Server, exec: ExecServer): void {
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => exec.protocols().find((protocol) => offered.has(protocol)) ?? false,
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const url = new URL(request.url ?? "/", "http://server");
    const [, namespace = "", pod = ""] =
      /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/exec$/.exec(url.pathname) ?? [];
    const refusal = exec.refusal(request) ?? exec.store.podProblem(namespace, pod);
    if (refusal !== undefined) return refuse(socket, refusal);
    const call = {
      namespace,
      pod,
      container: url.searchParams.get("container") ?? "",
      command: url.searchParams.getAll("command"),
    };
    sockets.handleUpgrade(request, socket, head, (client) =>
      serve(client, { call, wantsInput: url.searchParams.get("stdin") === "true", run: exec.run }),
    );
  });
}

function refuse(socket: Duplex, { status, body }: { status: number; body: object }): void {
  const text = JSON.stringify(body);
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  );
}

interface Served {
  readonly call: Omit<ExecCall, "stdin" | "ended">;
  readonly wantsInput: boolean;
  readonly run: (call: ExecCall) => ExecAnswer;
}

function serve(client: WebSocket, { call, wantsInput, run }: Served): void {
  const chunks: Buffer[] = [];
  const finish = (ended: boolean): void =>
    answer(client, run({ ...call, stdin: Buffer.concat(chunks).toString("utf8"), ended }));
  for (const channel of [0, 1, 2, 3]) client.send(Buffer.of(channel));
  client.on("message", (data: RawData) => {
    const bytes = data as Buffer;
    if (bytes[0] === 255 && bytes[1] === 0) return finish(true);
    chunks.push(bytes.subarray(1));
    // Without a way to tell the end, a program that needs only this much goes on.
    if (client.protocol !== "v5.channel.k8s.io") finish(false);
  });
  if (!wantsInput) finish(false);
}

function answer(client: WebSocket, { stdout, stderr, exitCode = 0, failure, drop, hang }: ExecAnswer): void {
  if (hang === true) return;
  if (drop === true) return client.terminate();
  const send = (channel: number, text: string): void =>
    client.send(Buffer.concat([Buffer.of(channel), Buffer.from(text, "utf8")]));
  if (stdout !== undefined) send(1, stdout);
  if (stderr !== undefined) send(2, stderr);
  send(3, JSON.stringify(statusOf(exitCode, failure)));
  client.close(1000);
}

function statusOf(exitCode: number, failure: string | undefined): object {
  if (failure !== undefined) {
    return { metadata: {}, status: "Failure", message: failure, reason: "InternalError", code: 500 };
  }
  if (exitCode === 0) return { metadata: {}, status: "Success" };
  return {
    metadata: {},
    status: "Failure",
    message: `command terminated with non-zero exit code: exit status ${exitCode}`,
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: String(exitCode) }] },
  };
}
