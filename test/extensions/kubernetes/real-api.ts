import { readFileSync } from "node:fs";
import { request } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "yaml";

/** The API server that `npm run test:kubernetes` has started. */
export interface RealApi extends AsyncDisposable {
  /** Path of its kubeconfig. */
  readonly kubeconfig: string;
  setStatus(path: string, status: object): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly body: { items?: Item[] } & Item;
}

interface Item {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly deletionTimestamp?: string;
    readonly finalizers?: readonly string[];
  };
}

/** Kinds that the tests delete. */
const kinds = ["/apis/apps/v1/|deployments", "/api/v1/|configmaps", "/api/v1/|pods"];
const definitions = "/apis/apiextensions.k8s.io/v1/|customresourcedefinitions";
const everyMs = 100;

/**
 * Connects, and stands in for the controllers that end deletions: nothing that was deleted depends on anything, so its
 * finalizer is removed, and namespaces are emptied and finalized.
 */
export async function connect(): Promise<RealApi> {
  const kubeconfig = process.env["MCPVALS_TEST_KUBECONFIG"];
  if (kubeconfig === undefined) throw new Error("start this suite with npm run test:kubernetes");
  const { clusters, users } = parse(readFileSync(kubeconfig, "utf8"));
  const { server, "certificate-authority": authority } = clusters[0].cluster;
  const ca = readFileSync(authority);
  const headers = { Authorization: `Bearer ${users[0].user.token}` };
  const ask = (method: string, path: string, body?: object, type = "application/json"): Promise<Answer> =>
    new Promise((done, fail) => {
      const sent = request(
        `${server}${path}`,
        { method, ca, headers: { ...headers, "Content-Type": type } },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("end", () => {
            const text = Buffer.concat(chunks).toString("utf8");
            done({ status: response.statusCode ?? 0, body: JSON.parse(text) });
          });
        },
      );
      sent.on("error", fail);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  const end = new AbortController();
  const controllers = collect(ask, end.signal);
  return {
    kubeconfig,
    async setStatus(path, status) {
      const answer = await ask("PATCH", `${path}/status`, { status }, "application/merge-patch+json");
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    },
    async [Symbol.asyncDispose]() {
      end.abort();
      await controllers;
    },
  };
}

type Ask = (method: string, path: string, body?: object, type?: string) => Promise<Answer>;

async function collect(ask: Ask, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const kind of [...kinds, definitions]) await release(ask, kind);
    const namespaces = await ask("GET", "/api/v1/namespaces");
    for (const { metadata } of namespaces.body.items ?? []) {
      if (metadata.deletionTimestamp !== undefined) await finalize(ask, metadata.name);
    }
    await sleep(everyMs, undefined, { signal }).catch(() => undefined);
  }
}

async function release(ask: Ask, kind: string): Promise<void> {
  const [base = "", plural = ""] = kind.split("|");
  const list = await ask("GET", `${base}${plural}`);
  for (const { metadata } of list.body.items ?? []) {
    const { name, namespace, deletionTimestamp, finalizers = [] } = metadata;
    if (deletionTimestamp === undefined || !finalizers.includes("foregroundDeletion")) continue;
    const folder = namespace === undefined ? base : `${base}namespaces/${namespace}/`;
    const rest = finalizers.filter((each) => each !== "foregroundDeletion");
    const patch = { metadata: { finalizers: rest } };
    await ask("PATCH", `${folder}${plural}/${name}`, patch, "application/merge-patch+json");
  }
}

async function finalize(ask: Ask, name: string): Promise<void> {
  for (const kind of kinds) {
    const [base = "", plural = ""] = kind.split("|");
    await ask("DELETE", `${base}namespaces/${name}/${plural}?gracePeriodSeconds=0`);
  }
  const metadata = { name };
  await ask(
    "PATCH",
    `/api/v1/namespaces/${name}`,
    { metadata: { finalizers: null } },
    "application/merge-patch+json",
  );
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata, spec: { finalizers: [] } };
  await ask("PUT", `/api/v1/namespaces/${name}/finalize`, namespace);
}
