import { spawn } from "node:child_process";
import { delimiter } from "node:path";
import * as z from "zod";
import {
  EnvironmentError,
  type Json,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { isObject, objectsOf, shown, textOf } from "../kube/state.ts";

const namespace = z.string().optional().describe("Default: the one of the kubeconfig's context.");

/** `helmInstall`: installs a chart. */
export const helmInstall = operation({
  description: "Installs a chart with the helm program.",
  params: z.looseObject({
    chart: z
      .string()
      .min(1)
      .describe("A chart's folder, starting from the task's, or another name helm knows."),
    name: z.string().optional().describe("Name of the release; default: one that helm makes."),
    namespace,
    values: z.record(z.string(), z.json()).default({}).describe("Handed to helm as --set."),
    createNamespace: z.boolean().default(false),
    wait: z.boolean().default(false).describe("True: wait until what the chart has is ready."),
  }),
  async run({ chart, name, namespace, values, createNamespace, wait }, context: OperationRun<Cluster>) {
    const args = [
      "install",
      name === undefined || name === "" ? "--generate-name" : name,
      chart,
      ...inNamespace(namespace),
      ...(createNamespace ? ["--create-namespace"] : []),
      ...(wait ? ["--wait"] : []),
      ...settings(values as JsonObject).flatMap((setting) => ["--set", setting]),
    ];
    const end = await runHelm(args, context);
    if (end.code !== 0) throw helmFailure(args, end);
    return { message: end.stdout.trim() };
  },
});

/** `helmList`: which releases there are. Only `expect` makes the answer count. */
export const helmList = operation({
  description:
    "Lists releases with the helm program. That there are none is a success too, unless expect says how many, or which.",
  params: z.looseObject({
    namespace,
    allNamespaces: z.boolean().default(false),
    expect: z
      .strictObject({
        count: z.int().nonnegative().optional(),
        names: z.array(z.string().min(1)).min(1).optional().describe("Releases that must be among them."),
      })
      .optional(),
  }),
  async run({ namespace, allNamespaces, expect = {} }, context: OperationRun<Cluster>) {
    const args = [
      "list",
      "--output",
      "json",
      ...(allNamespaces ? ["--all-namespaces"] : inNamespace(namespace)),
    ];
    const end = await runHelm(args, context);
    if (end.code !== 0) throw helmFailure(args, end);
    const releases = releasesIn(end.stdout);
    const names = releases.map((release) => textOf(release["name"]) ?? "?");
    const outputs = { count: String(releases.length), names: names.join("\n") };
    const told = [countText(releases.length), ...releases.map(releaseText)].join("\n");
    const missing = expect.names?.filter((name) => !names.includes(name)) ?? [];
    const problems = [
      ...(expect.count === undefined || expect.count === releases.length ? [] : [`expected ${expect.count}`]),
      ...(missing.length === 0 ? [] : [`${missing.join(", ")} not among them`]),
    ];
    if (problems.length === 0) return { message: told, outputs };
    throw new OperationFailed(`${problems.join("; ")}: ${told}`, { outputs });
  },
});

/** `helmUninstall`: removes a release; that there is none is a success. */
export const helmUninstall = operation({
  description: "Uninstalls a release with the helm program; one that is not there is a success.",
  params: z.looseObject({ name: z.string().min(1), namespace }),
  async run({ name, namespace }, context: OperationRun<Cluster>) {
    const args = ["uninstall", name, ...inNamespace(namespace)];
    const end = await runHelm(args, context);
    if (end.code === 0) return { message: end.stdout.trim() };
    if (/release[^\n]*not found/i.test(end.stderr)) return { message: `there is no release ${name}` };
    throw helmFailure(args, end);
  },
});

function inNamespace(namespace: string | undefined): readonly string[] {
  return namespace === undefined || namespace === "" ? [] : ["--namespace", namespace];
}

/** Keys are helm's own paths; values inside others go on with them. Commas would begin a new setting. */
function settings(values: Json, path = ""): readonly string[] {
  if (Array.isArray(values) && values.length > 0) {
    return values.flatMap((value: Json, index) => settings(value, `${path}[${index}]`));
  }
  if (isObject(values) && (path === "" || Object.keys(values).length > 0)) {
    return Object.entries(values).flatMap(([key, value]) =>
      settings(value, path === "" ? key : `${path}.${key}`),
    );
  }
  const text = typeof values === "string" ? values.replaceAll(/[\\,]/g, "\\$&") : JSON.stringify(values);
  return [`${path}=${text}`];
}

function releasesIn(stdout: string): readonly JsonObject[] {
  try {
    const list = stdout.trim() === "" ? [] : (JSON.parse(stdout) as Json);
    if (Array.isArray(list)) return objectsOf(list);
  } catch (cause) {
    throw new EnvironmentError(`helm list wrote no JSON: ${shown(stdout)}`, { cause });
  }
  throw new EnvironmentError(`helm list wrote no JSON list: ${shown(stdout)}`);
}

function countText(count: number): string {
  return count === 0 ? "there are no releases" : `${count} ${count === 1 ? "release" : "releases"}:`;
}

function releaseText(release: JsonObject): string {
  const [name, namespace, status, chart] = ["name", "namespace", "status", "chart"].map(
    (key) => textOf(release[key]) ?? "?",
  );
  return `${name} (namespace ${namespace}, ${status}, chart ${chart})`;
}

/** How the helm program ended. */
export interface HelmEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const unreachable =
  /cluster unreachable|connection refused|no such host|i\/o timeout|x509:|Unauthorized|forbidden/i;

/**
 * Runs the helm program in the task's folder, with the kubeconfig and context of the extension. Throws EnvironmentError when
 * it is not installed or cannot reach the cluster, and the signal's reason.
 */
async function runHelm(args: readonly string[], context: OperationRun<Cluster>): Promise<HelmEnd> {
  const { kubeconfig } = context.resources;
  const where = kubeconfig.context === undefined ? [] : ["--kube-context", kubeconfig.context];
  const end = await start([...args, ...where], {
    cwd: context.workdir,
    signal: context.signal,
    kubeconfig: kubeconfig.files.join(delimiter),
  });
  if (end.code !== 0 && unreachable.test(end.stderr)) {
    throw new EnvironmentError(`helm ${args[0]} could not work with the cluster: ${end.stderr.trim()}`);
  }
  return end;
}

/** The failure of a run that was not expected to end so. */
function helmFailure(args: readonly string[], { code, stdout, stderr }: HelmEnd): OperationFailed {
  const output = [stderr.trim(), stdout.trim()].filter((text) => text !== "").join("\n");
  return new OperationFailed(`helm ${args.join(" ")} ended with exit code ${code}:\n${output}`);
}

interface Start {
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly kubeconfig: string;
}

function start(args: readonly string[], { cwd, signal, kubeconfig }: Start): Promise<HelmEnd> {
  return new Promise((done, fail) => {
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    const child = spawn("helm", args, {
      cwd,
      signal,
      env: { ...process.env, KUBECONFIG: kubeconfig },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
    child.on("error", (cause) => fail(signal.aborted ? signal.reason : notStarted(cause)));
    child.on("close", (code, killedBy) => {
      const errors = Buffer.concat(stderr).toString("utf8");
      const told = killedBy === null ? errors : `${errors}ended by ${killedBy}`;
      done({ code: code ?? 1, stdout: Buffer.concat(stdout).toString("utf8"), stderr: told });
    });
  });
}

function notStarted(cause: NodeJS.ErrnoException): EnvironmentError {
  const message =
    cause.code === "ENOENT"
      ? "the program helm is not on PATH; install it (Helm 3), or do without the helm operations"
      : `the program helm cannot be started: ${cause.message}`;
  return new EnvironmentError(message, { cause });
}
