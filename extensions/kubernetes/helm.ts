import { spawn } from "node:child_process";
import { delimiter } from "node:path";
import { EnvironmentError, OperationFailed, type OperationRun } from "../../src/extension-sdk/index.ts";
import type { Cluster } from "./cluster.ts";

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
export async function runHelm(args: readonly string[], context: OperationRun<Cluster>): Promise<HelmEnd> {
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
export function helmFailure(args: readonly string[], { code, stdout, stderr }: HelmEnd): OperationFailed {
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
