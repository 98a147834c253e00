import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import { EnvironmentError, type Json, type JsonObject } from "../../../src/extensions/sdk/index.ts";
import { causesOf, type KubeApi, problemOf } from "./api.ts";
import { isObject, shown, textOf } from "./state.ts";

/** A program to be run in a container. */
export interface Command {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly command: readonly string[];
  readonly stdin: string | undefined;
}

export interface Ended {
  readonly kind: "ended";
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** It did not run, for a reason that lies in the container: no such program, not allowed. */
export interface NotStarted {
  readonly kind: "not-started";
  readonly message: string;
}

/** v5 is the first that can say that standard input has ended. */
const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const channels = { stdin: 0, stdout: 1, stderr: 2, status: 3, close: 255 };
const longestFrame = 64 * 1024;
/** Longest output of a program, in bytes. */
const maxOutputLength = 4 * 1024 * 1024;
const containersFault =
  /executable file not found|no such file or directory|permission denied|exec format error/i;

/**
 * Runs a program in a container, over a WebSocket. `onOpenInput` is called when its standard input cannot be ended, since
 * the server is older than v5 of the protocol. Throws ApiProblem, EnvironmentError and the signal's reason.
 */
export async function execute(
  api: KubeApi,
  command: Command,
  { signal, onOpenInput }: { readonly signal: AbortSignal; readonly onOpenInput: () => void },
): Promise<Ended | NotStarted> {
  signal.throwIfAborted();
  const socket = await open(api, pathOf(command));
  const abort = (): void => socket.terminate();
  signal.addEventListener("abort", abort);
  try {
    return await talk(socket, { api, command, onOpenInput });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
    socket.terminate();
  }
}

function pathOf({ namespace, pod, container, command, stdin }: Command): string {
  const query = new URLSearchParams({ container, stdout: "true", stderr: "true", tty: "false" });
  if (stdin !== undefined) query.set("stdin", "true");
  for (const part of command) query.append("command", part);
  const folder = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}`;
  return `${folder}/exec?${query.toString()}`;
}

async function open(api: KubeApi, path: string): Promise<WebSocket> {
  const { url, options } = await api.connection(path);
  url.protocol = url.protocol.replace("http", "ws");
  return new WebSocket(url, protocols, { ...options, maxPayload: 2 * maxOutputLength });
}

interface Talk {
  readonly api: KubeApi;
  readonly command: Command;
  readonly onOpenInput: () => void;
}

function talk(socket: WebSocket, { api, command, onOpenInput }: Talk): Promise<Ended | NotStarted> {
  const stdout = new Output("stdout");
  const stderr = new Output("stderr");
  const server = api.server();
  return new Promise((done, fail) => {
    const failWith = (reason: string, cause?: unknown): void =>
      fail(new EnvironmentError(`exec at ${server}: ${reason}`, { cause }));
    socket.on("unexpected-response", (_request, response: IncomingMessage) => {
      void refusal(response, server).then(fail, (error: unknown) => failWith("no usable answer", error));
    });
    socket.on("error", (error) => failWith(`the connection failed: ${error.message}`, error));
    socket.on("close", () => failWith("the connection ended before the program's end was known"));
    socket.on("open", () => {
      if (command.stdin !== undefined) write(socket, command.stdin, onOpenInput);
    });
    socket.on("message", (data: Buffer) => {
      const [channel] = data;
      const content = data.subarray(1);
      if (content.length === 0) return; // servers open each channel so
      try {
        if (channel === channels.stdout) stdout.add(content);
        if (channel === channels.stderr) stderr.add(content);
        if (channel === channels.status)
          done(endOf(content, { stdout: stdout.text(), stderr: stderr.text() }));
      } catch (error) {
        fail(error instanceof Error ? error : new Error(String(error)));
      }
    });
  });
}

function write(socket: WebSocket, stdin: string, onOpenInput: () => void): void {
  const bytes = Buffer.from(stdin, "utf8");
  for (let start = 0; start < bytes.length; start += longestFrame) {
    socket.send(Buffer.concat([Buffer.of(channels.stdin), bytes.subarray(start, start + longestFrame)]));
  }
  if (socket.protocol === protocols[0]) socket.send(Buffer.of(channels.close, channels.stdin));
  else onOpenInput();
}

async function refusal(response: IncomingMessage, server: string): Promise<Error> {
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString("utf8");
  return problemOf({ what: "exec", server, status: response.statusCode ?? 0, body: parsed(text), text });
}

function endOf(content: Buffer, output: { stdout: string; stderr: string }): Ended | NotStarted {
  const status = parsed(content.toString("utf8"));
  if (isObject(status) && status["status"] === "Success") return { kind: "ended", exitCode: 0, ...output };
  const code = causesOf(status).find(({ reason }) => reason === "ExitCode")?.message;
  if (code !== undefined && /^\d+$/.test(code)) return { kind: "ended", exitCode: Number(code), ...output };
  const message = messageOf(status);
  if (containersFault.test(message)) return { kind: "not-started", message };
  throw new EnvironmentError(`the program could not be run: ${message}`);
}

function messageOf(status: Json | undefined): string {
  const told: JsonObject = isObject(status) ? status : {};
  return textOf(told["message"]) ?? shown(status);
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // told as it is by whoever asked
  }
}

class Output {
  readonly #name: string;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** Throws EnvironmentError when it becomes too long to be handed on. */
  add(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > maxOutputLength) {
      throw new EnvironmentError(`the program wrote more than ${maxOutputLength} bytes to ${this.#name}`);
    }
    this.#chunks.push(chunk);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }
}
