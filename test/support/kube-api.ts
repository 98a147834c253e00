import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { stringify } from "yaml";
import { type ExecAnswer, type ExecCall, serveExec } from "./kube-exec.ts";
import { KubeStore, statusAnswer } from "./kube-store.ts";

/** What the server does instead of answering, for requests that fit. */
export type KubeFault =
  | { readonly kind: "status"; readonly status: number; readonly message: string; readonly reason?: string }
  /** Ends the connection without an answer. */
  | { readonly kind: "close" }
  /** Never answers. */
  | { readonly kind: "silent" }
  /** A page of a proxy. */
  | { readonly kind: "html" };

export interface KubeRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string | undefined;
  readonly body: unknown;
}

/**
 * An API server of Kubernetes on loopback, without TLS, whose objects are in memory. Its answers have the shapes that
 * kube-apiserver 1.20 gives; the suite in `test/extensions/kubernetes` holds both to the same expectations. What controllers do
 * it does not, but for one thing: what is deleted in the foreground is gone after it was read once more.
 */
export interface KubeApiServer extends AsyncDisposable {
  readonly url: string;
  readonly store: KubeStore;
  readonly requests: readonly KubeRequest[];
  /** A kubeconfig for it, with the contexts `admin`, `nobody` (may do nothing) and `stranger` (not known). */
  kubeconfig(): string;
  /** Requests whose `METHOD PATH` fits get this; undefined: no more faults. */
  fault(pattern: RegExp, fault: KubeFault | undefined): void;
  /** How programs in containers end. */
  onExec(run: (call: ExecCall) => ExecAnswer): void;
  /** Protocols of exec that it speaks. Default: v5 and v4. */
  speak(protocols: readonly string[]): void;
}

/** Starts one. */
export async function startKubeApi(): Promise<KubeApiServer> {
  const store = new KubeStore();
  const requests: KubeRequest[] = [];
  let faults: { pattern: RegExp; fault: KubeFault } | undefined;
  let run: (call: ExecCall) => ExecAnswer = () => ({ exitCode: 0 });
  let protocols: readonly string[] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
  const faultOf = (request: IncomingMessage): KubeFault | undefined =>
    faults?.pattern.test(`${request.method} ${request.url}`) === true ? faults.fault : undefined;
  const server = createServer((request, response) => {
    void handle(request, response);
  });
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = await readRequest(request);
    requests.push(asked);
    const fault = faultOf(request);
    if (fault !== undefined) return misbehave(response, fault);
    const answer = refusedUser(request) ?? store.answer(asked);
    if (typeof answer.body === "string") {
      response.writeHead(answer.status, { "Content-Type": "text/plain; charset=utf-8" }).end(answer.body);
      return;
    }
    response
      .writeHead(answer.status, { "Content-Type": "application/json" })
      .end(JSON.stringify(answer.body));
  }
  serveExec(server, {
    store,
    run: (call) => run(call),
    protocols: () => protocols,
    refusal: (request) => {
      const fault = faultOf(request);
      if (fault?.kind === "status") return statusAnswer(fault);
      return refusedUser(request);
    },
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    store,
    requests,
    kubeconfig: () => stringify(kubeconfigOf(url)),
    fault(pattern, fault) {
      faults = fault === undefined ? undefined : { pattern, fault };
    },
    onExec(next) {
      run = next;
    },
    speak(next) {
      protocols = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

/** The document of a kubeconfig whose users have tokens that are their names. */
export function kubeconfigOf(server: string, cluster: Record<string, unknown> = {}): object {
  const users = ["admin", "nobody", "stranger"];
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster: { server, ...cluster } }],
    contexts: users.map((user) => ({ name: user, context: { cluster: "test", user } })),
    "current-context": "admin",
    users: users.map((name) => ({ name, user: { token: `token-of-${name}` } })),
  };
}

function refusedUser(request: IncomingMessage): { status: number; body: object } | undefined {
  const user = /^Bearer token-of-(\w+)$/.exec(request.headers.authorization ?? "")?.[1];
  if (user === "admin") return undefined;
  if (user !== "nobody")
    return statusAnswer({ status: 401, message: "Unauthorized", reason: "Unauthorized" });
  const message = `the request is forbidden: User "nobody" cannot do this at the cluster scope`;
  return statusAnswer({ status: 403, message, reason: "Forbidden" });
}

function misbehave(response: ServerResponse, fault: KubeFault): void {
  switch (fault.kind) {
    case "status": {
      const { status, body } = statusAnswer(fault);
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
      return;
    }
    case "html":
      response.writeHead(200, { "Content-Type": "text/html" }).end("<html>welcome</html>");
      return;
    case "close":
      response.destroy();
      return;
    case "silent":
      return;
  }
}

async function readRequest(request: IncomingMessage): Promise<KubeRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString("utf8");
  const url = new URL(request.url ?? "/", "http://server");
  return {
    method: request.method ?? "GET",
    path: decodeURIComponent(url.pathname),
    query: url.searchParams,
    contentType: request.headers["content-type"],
    body: text === "" ? undefined : JSON.parse(text),
  };
}
