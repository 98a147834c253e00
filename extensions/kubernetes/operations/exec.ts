import * as z from "zod";
import {
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extensions/sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { execute } from "../kube/exec.ts";
import { memberOf, objectsOf, stateOf, textOf } from "../kube/state.ts";
import { nameOf, type Target, targetOf } from "../kube/objects.ts";
import { isFound } from "../compare.ts";
import { readExisting } from "./target.ts";

const defaultContainer = "kubectl.kubernetes.io/default-container";
/** Most characters of an output that a message shows. */
const maxShown = 1000;

const text = z.union([
  z.string(),
  z.strictObject({
    equals: z.string().optional(),
    contains: z.string().min(1).optional(),
    matches: z.string().min(1).optional(),
  }),
]);

const params = z.strictObject({
  pod: z.string().min(1).optional(),
  labelSelector: z
    .string()
    .min(1)
    .optional()
    .describe("Instead of pod: the first running pod with these labels."),
  namespace: z.string().min(1).optional().describe("Default: the one of the kubeconfig's context."),
  container: z.string().min(1).optional().describe("Default: the pod's default container, or its first."),
  command: z
    .union([z.string().min(1), z.array(z.string()).min(1)])
    .describe("A program with its arguments, or a text for the container's sh."),
  stdin: z.string().optional(),
  expect: z
    .strictObject({ exitCode: z.int().default(0), stdout: text.optional(), stderr: text.optional() })
    .prefault({})
    .describe(
      "stdout and stderr: a text for equality without trailing line ends, or equals, contains, matches.",
    ),
});

type Args = z.output<typeof params>;

/** `exec`: runs a program in a container and looks at how it ended. */
export const exec = operation({
  description:
    "Runs a program in a container of a running pod; its exit code and output must be as expected.",
  params,
  async run(args, context: OperationRun<Cluster>) {
    const { resources: cluster, signal, log } = context;
    const { target, object } = await podOf(args, context);
    const container = containerOf(args, { target, object });
    const command = typeof args.command === "string" ? ["sh", "-c", args.command] : args.command;
    const onOpenInput = (): void =>
      log(
        "warn",
        "this server cannot end a program's standard input; one that reads to its end will not end",
      );
    const end = await execute(
      cluster.api,
      { namespace: target.namespace ?? "", pod: target.name, container, command, stdin: args.stdin },
      { signal, onOpenInput },
    );
    const what = `${nameOf(target)}, container ${container}, ${JSON.stringify(args.command)}`;
    if (end.kind === "not-started") throw new OperationFailed(`${what} could not be run: ${end.message}`);
    const outputs = { stdout: end.stdout, stderr: end.stderr, exitCode: String(end.exitCode) };
    const problems = problemsOf(args.expect, end);
    if (problems.length === 0) return { message: `${what}: exit code ${end.exitCode}`, outputs };
    const seen = [`stdout: ${cut(end.stdout)}`, `stderr: ${cut(end.stderr)}`];
    throw new OperationFailed([`${what}:`, ...problems, ...seen].join("\n"), { outputs });
  },
});

async function podOf(
  { pod, labelSelector, namespace }: Args,
  { resources: cluster, signal }: OperationRun<Cluster>,
): Promise<{ target: Target; object: JsonObject }> {
  const kind = { apiVersion: "v1", kind: "Pod", namespace };
  if (pod !== undefined) return readExisting(cluster, { ...kind, name: pod }, signal);
  if (labelSelector === undefined) throw new OperationFailed("exec needs a pod or a labelSelector");
  const pods = await cluster.objects.list({ ...kind, labelSelector }, signal);
  const running = pods.find((each) => memberOf(each, "status", "phase") === "Running") ?? pods[0];
  if (running === undefined) throw new OperationFailed(`there is no pod with ${labelSelector}`);
  const target = { ...targetOf(running), apiVersion: "v1", kind: "Pod" };
  return { target, object: running };
}

/** The container's name. Throws OperationFailed when there is none, or when it does not run. */
function containerOf(
  { container }: Args,
  { target, object }: { target: Target; object: JsonObject },
): string {
  const names = objectsOf(memberOf(object, "spec", "containers")).map((each) => textOf(each["name"]) ?? "");
  const name =
    container ?? textOf(memberOf(object, "metadata", "annotations", defaultContainer)) ?? names[0] ?? "";
  if (!names.includes(name)) {
    throw new OperationFailed(`${nameOf(target)} has no container ${name}, only ${names.join(", ")}`);
  }
  const status = objectsOf(memberOf(object, "status", "containerStatuses")).find(
    (each) => each["name"] === name,
  );
  if (memberOf(status, "state", "running") !== undefined) return name;
  throw new OperationFailed(`${nameOf(target)}: the container ${name} is not running\n${stateOf(object)}`);
}

function problemsOf(
  expect: Args["expect"],
  end: { readonly exitCode: number; readonly stdout: string; readonly stderr: string },
): readonly string[] {
  return [
    ...(end.exitCode === expect.exitCode
      ? []
      : [`exit code is ${end.exitCode}, expected ${expect.exitCode}`]),
    ...textProblems("stdout", end.stdout, expect.stdout),
    ...textProblems("stderr", end.stderr, expect.stderr),
  ];
}

function textProblems(
  name: string,
  found: string,
  expected: z.output<typeof text> | undefined,
): readonly string[] {
  if (expected === undefined) return [];
  const { equals, contains, matches } =
    typeof expected === "string" ? { equals: expected, contains: undefined, matches: undefined } : expected;
  return [
    ...(equals === undefined || withoutEnd(found) === withoutEnd(equals)
      ? []
      : [`${name} is not ${JSON.stringify(equals)}`]),
    ...(contains === undefined || found.includes(contains)
      ? []
      : [`${name} does not contain ${JSON.stringify(contains)}`]),
    ...(matches === undefined || isFound(matches, found)
      ? []
      : [`${name} does not match ${JSON.stringify(matches)}`]),
  ];
}

function withoutEnd(text: string): string {
  return text.replace(/\r?\n$/, "");
}

function cut(text: string): string {
  return JSON.stringify(text.length > maxShown ? `${text.slice(0, maxShown)}…` : text);
}
