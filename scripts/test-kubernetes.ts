import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { kubeconfigOf } from "../test/support/kube-api.ts";

/**
 * `npm run test:kubernetes`: starts etcd and kube-apiserver on loopback and tests the extension `kubernetes` with them. There is
 * no kubelet and no controller, so pods do not run; the tests delete what controllers would delete. Names after
 * `--` go to vitest.
 *
 * `etcd` and `kube-apiserver` are taken from PATH, or from MCPVALS_ETCD and MCPVALS_KUBE_APISERVER. Debian has etcd
 * (`etcd-server`), but no kube-apiserver; it can be built there from the source of its package `kubernetes`, in about ten
 * minutes:
 *
 *     apt-get install golang-1.19 rsync jq dpkg-dev golang-github-modern-go-reflect2-dev
 *     apt-get source kubernetes && cd kubernetes-1.20*
 *     rm vendor/github.com/modern-go/reflect2/*.go
 *     cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go vendor/github.com/modern-go/reflect2/
 *     mkdir -p ../gopath/src/k8s.io && ln -s "$PWD" ../gopath/src/k8s.io/kubernetes
 *     cd ../gopath/src/k8s.io/kubernetes
 *     PATH=/usr/lib/go-1.19/bin:$PATH GO111MODULE=off GOPATH=$PWD/../../../ make WHAT=cmd/kube-apiserver
 *
 * The program is then `_output/local/bin/linux/amd64/kube-apiserver`. The vendored reflect2 is too old for that Go: with
 * it the server starts, but panics on many requests.
 */
const root = resolve(import.meta.dirname, "..");
const readyWithinMs = 120_000;

const folder = mkdtempSync(join(tmpdir(), "mcpvals-kube-"));
const started: ChildProcess[] = [];
try {
  const kubeconfig = await startApi();
  process.exitCode = runTests(kubeconfig);
} finally {
  for (const child of started.toReversed()) await stop(child);
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
}

/** Starts the API server; returns the path of a kubeconfig. */
async function startApi(): Promise<string> {
  const [client, peer, secure] = await freePorts(3);
  const [store, etcdPeer] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
  start(process.env["MCPVALS_ETCD"] ?? "etcd", [
    `--data-dir=${join(folder, "etcd")}`,
    "--unsafe-no-fsync",
    `--listen-client-urls=${store}`,
    `--advertise-client-urls=${store}`,
    `--listen-peer-urls=${etcdPeer}`,
    `--initial-advertise-peer-urls=${etcdPeer}`,
    `--initial-cluster=default=${etcdPeer}`,
  ]);
  const key = join(folder, "service-accounts.key");
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  writeFileSync(key, privateKey.export({ type: "pkcs1", format: "pem" }), { mode: 0o600 });
  const tokens = join(folder, "tokens.csv");
  const rows = [`token-of-admin,admin,admin,"system:masters"`, "token-of-nobody,nobody,nobody"];
  writeFileSync(tokens, `${rows.join("\n")}\n`, { mode: 0o600 });
  const certificates = join(folder, "certificates");
  const server = start(process.env["MCPVALS_KUBE_APISERVER"] ?? "kube-apiserver", [
    `--etcd-servers=${store}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${secure}`,
    `--cert-dir=${certificates}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${key}`,
    `--service-account-signing-key-file=${key}`,
    `--token-auth-file=${tokens}`,
    "--authorization-mode=RBAC",
    "--service-cluster-ip-range=10.0.0.0/24",
    // Pods would need service accounts, and no controller creates them.
    "--disable-admission-plugins=ServiceAccount",
    // The address of this server is loopback, which the endpoints of the service `kubernetes` must not contain.
    "--endpoint-reconciler-type=none",
  ]);
  const url = `https://127.0.0.1:${secure}`;
  const authority = join(certificates, "apiserver.crt");
  await ready(server, { url, authority });
  const kubeconfig = join(folder, "kubeconfig");
  writeFileSync(kubeconfig, stringify(kubeconfigOf(url, { "certificate-authority": authority })));
  return kubeconfig;
}

function start(program: string, args: readonly string[]): ChildProcess {
  const log = openSync(join(folder, `${started.length}.log`), "w");
  const child = spawn(program, args, { stdio: ["ignore", log, log] });
  closeSync(log);
  child.on("error", (error) => {
    console.error(`${program} cannot be started: ${error.message}; see scripts/test-kubernetes.ts`);
  });
  started.push(child);
  return child;
}

/** Waits until the server has started and created the namespace `default`. */
async function ready(server: ChildProcess, place: { url: string; authority: string }): Promise<void> {
  const end = Date.now() + readyWithinMs;
  while (Date.now() < end) {
    if (server.pid === undefined || server.exitCode !== null) break;
    const paths = ["/readyz", "/api/v1/namespaces/default"];
    const codes = await Promise.all(paths.map((path) => statusOf(path, place)));
    if (codes.every((code) => code === 200)) return;
    await sleep(250);
  }
  const log = started.map((_, index) => readFileSync(join(folder, `${index}.log`), "utf8").slice(-2000));
  throw new Error(`kube-apiserver does not become ready:\n${log.join("\n")}`);
}

function statusOf(path: string, { url, authority }: { url: string; authority: string }): Promise<number> {
  return new Promise((done) => {
    let ca: Buffer;
    try {
      ca = readFileSync(authority);
    } catch {
      return done(0); // the server has not written it yet
    }
    const sent = request(
      url + path,
      { ca, headers: { Authorization: "Bearer token-of-admin" } },
      (answer) => {
        answer.resume();
        done(answer.statusCode ?? 0);
      },
    );
    sent.on("error", () => done(0));
    sent.end();
  });
}

function runTests(kubeconfig: string): number {
  const { status, error } = spawnSync(
    process.execPath,
    [
      join(root, "node_modules/vitest/vitest.mjs"),
      "run",
      "--config=vitest.kubernetes.config.ts",
      ...process.argv.slice(2),
    ],
    { cwd: root, stdio: "inherit", env: { ...process.env, MCPVALS_TEST_KUBECONFIG: kubeconfig } },
  );
  if (error !== undefined) throw error;
  return status ?? 1;
}

async function freePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports: number[] = [];
  for (const server of servers) {
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    ports.push((server.address() as AddressInfo).port);
  }
  for (const server of servers) await new Promise((done) => server.close(done));
  return ports;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once("exit", done));
  child.kill("SIGTERM");
  const late = new AbortController();
  await Promise.race([
    ended,
    sleep(10_000, undefined, { signal: late.signal }).then(() => child.kill("SIGKILL")),
  ]);
  late.abort();
}
