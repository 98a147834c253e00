import * as z from "zod";
import { operation, OperationFailed, type OperationRun } from "../../../src/extensions/sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { memberOf, textOf } from "../kube/state.ts";

const params = z.looseObject({
  verb: z.string().min(1).describe("Such as get, list or create."),
  resource: z.string().min(1).describe("Such as pods or deployments; pods/log for a part of it."),
  as: z
    .string()
    .optional()
    .describe("A user, or system:serviceaccount:NAMESPACE:NAME. Default: the kubeconfig's user."),
  groups: z.array(z.string()).optional().describe("Further groups of that user."),
  namespace: z.string().optional().describe("Default: the whole cluster."),
  apiGroup: z.string().optional().describe("Such as apps; default: the core group."),
  resourceName: z.string().optional(),
  expect: z.looseObject({ allowed: z.boolean().optional() }).optional(),
});

type Args = z.output<typeof params>;

/** `authCanI`: whether a user may do something. Only `expect` makes the answer count. */
export const authCanI = operation({
  description: "Asks whether a user may do something; with expect, the answer must be as expected.",
  params,
  async run(args, { resources: { api }, signal }: OperationRun<Cluster>) {
    const kind = args.as === undefined || args.as === "" ? "SelfSubjectAccessReview" : "SubjectAccessReview";
    const review = await api.request({
      method: "POST",
      path: `/apis/authorization.k8s.io/v1/${kind.toLowerCase()}s`,
      body: { apiVersion: "authorization.k8s.io/v1", kind, spec: specOf(args) },
      signal,
    });
    const allowed = memberOf(review, "status", "allowed") === true;
    const reason = textOf(memberOf(review, "status", "reason")) ?? "";
    const outputs = { allowed: String(allowed), reason };
    const message = `${told(args)} is ${allowed ? "allowed" : "not allowed"}${reason === "" ? "" : `: ${reason}`}`;
    const expected = args.expect?.allowed;
    if (expected === undefined || expected === allowed) return { message, outputs };
    throw new OperationFailed(`${message}; expected it to be ${expected ? "allowed" : "not allowed"}`, {
      outputs,
    });
  },
});

function specOf({ verb, resource, as, groups = [], namespace, apiGroup, resourceName }: Args): {
  [key: string]: string | string[] | Record<string, string>;
} {
  const [plural = "", ...part] = resource.split("/");
  const resourceAttributes = {
    verb,
    resource: plural,
    ...(part.length === 0 ? {} : { subresource: part.join("/") }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(apiGroup === undefined ? {} : { group: apiGroup }),
    ...(resourceName === undefined ? {} : { name: resourceName }),
  };
  if (as === undefined || as === "") return { resourceAttributes };
  return { user: as, groups: [...groupsOf(as), ...groups], resourceAttributes };
}

/** Groups that the server itself gives to such a user when it signs in. */
function groupsOf(user: string): readonly string[] {
  const [, namespace] = /^system:serviceaccount:([^:]+):[^:]+$/.exec(user) ?? [];
  const accounts =
    namespace === undefined ? [] : ["system:serviceaccounts", `system:serviceaccounts:${namespace}`];
  return [...accounts, "system:authenticated"];
}

function told({ verb, resource, as, namespace, resourceName }: Args): string {
  const place = namespace === undefined || namespace === "" ? "in the whole cluster" : `in ${namespace}`;
  const name = resourceName === undefined ? "" : ` ${resourceName}`;
  return `${verb} ${resource}${name} ${place} as ${as || "the kubeconfig's user"}`;
}
