import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fails, isError, passes } from "./extension-process.ts";
import { until, type Served, serveExtension } from "./served.ts";

const target = { kind: "ConfigMap", name: "one" };
const verify = { phase: "verify" } as const;

describe("an API server that does not work", () => {
  let served: Served;
  beforeAll(async () => {
    served = await serveExtension();
    served.api.store.put({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "one", namespace: "default" },
    });
  });
  afterAll(() => served?.[Symbol.asyncDispose]());

  it.each([
    [
      { kind: "status", status: 403, message: "no", reason: "Forbidden" },
      /may not do this at http\S+: .* answered 403: no$/,
    ],
    [
      { kind: "status", status: 401, message: "who", reason: "Unauthorized" },
      /is not known to http\S+: .* answered 401: who$/,
    ],
    [
      { kind: "status", status: 500, message: "etcd is gone" },
      /^no usable answer from http\S+: .* answered 500: etcd is gone$/,
    ],
    [{ kind: "status", status: 503, message: "busy" }, /answered 503: busy$/],
    [{ kind: "status", status: 429, message: "too many" }, /answered 429: too many$/],
    [{ kind: "status", status: 302, message: "elsewhere" }, /answered 302/],
    [{ kind: "close" }, /^the Kubernetes API at http\S+ cannot be reached: socket hang up/],
    [{ kind: "html" }, /is not a Kubernetes API: \w+ \S+ gave no JSON object$/],
  ] as const)("is not a finding: %j", async (fault, message) => {
    served.api.fault(/configmaps/, fault);
    const calls: readonly [string, object][] = [
      ["resource-exists", target],
      ["resource-exists", { ...target, exists: false }],
      ["field-equals", { ...target, path: "data.a", exists: false }],
      ["wait", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "one" }, condition: "Ready" }],
      ["delete", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "one" }, ignoreNotFound: true }],
    ];
    for (const [operation, args] of calls) {
      await isError(served.extension.run(operation, args, verify), message);
    }
    served.api.fault(/./, undefined);
    await passes(served.extension.run("resource-exists", target, verify));
  });

  it("is asked no longer than the step may take", async () => {
    served.api.fault(/configmaps/, { kind: "silent" });
    await isError(
      served.extension.run("resource-exists", target, { ...verify, timeout: "300ms" }),
      "the operation did not end within 300ms",
    );
    served.api.fault(/./, undefined);
    await passes(served.extension.run("resource-exists", target, verify));
  });

  it("is asked no more when the time is up while it polls", async () => {
    const wait = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "one" }, condition: "Ready" };
    await served.extension.run("wait", { ...wait, timeout: "1h" }, { timeout: "400ms" });
    const before = served.api.requests.length;
    await served.extension.run("getCurrentContext");
    expect(served.api.requests.length).toBe(before);
  });
});

describe("a cluster that changes while it is looked at", () => {
  let served: Served;
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "default" },
    status: { conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }] },
  };
  const stable = { kind: "Pod", name: "p", condition: "Ready", for: "15s", every: "20ms" };
  const looks = (): number => served.api.requests.filter(({ path }) => path.endsWith("/pods/p")).length;
  beforeAll(async () => {
    served = await serveExtension();
  });
  afterAll(() => served?.[Symbol.asyncDispose]());

  it.each([
    ["False", "2026-01-01T00:00:00Z", /but after \S+ Ready=False/],
    [
      "True",
      "2026-01-01T00:00:09Z",
      /the condition had flipped meanwhile \(its last transition was at 2026-01-01T00:00:09Z\)/,
    ],
  ])("is not stable: %s since %s", async (status, lastTransitionTime, message) => {
    served.api.store.put(pod);
    const before = looks();
    const looking = served.extension.run("condition-stable", stable, verify);
    await until(() => looks() >= before + 2);
    served.api.store.put({ ...pod, status: { conditions: [{ type: "Ready", status, lastTransitionTime }] } });
    await fails(looking, message);
  });

  it("is waited for", async () => {
    served.api.store.put({ ...pod, status: {} });
    const before = looks();
    const wait = { apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, condition: "Ready" };
    const waiting = served.extension.run("wait", wait);
    await until(() => looks() > before);
    served.api.store.put(pod);
    await passes(waiting, "Pod default/p has Ready=True");
    expect(looks()).toBeGreaterThan(before + 1);
  });

  it("keeps what cannot be deleted, and says why", async () => {
    served.api.store.held = true;
    await served.extension.run("create-namespace", { name: "stuck" });
    await fails(
      served.extension.run("delete-namespace", { name: "stuck", timeout: "300ms" }),
      /^Namespace stuck is not gone within 300ms\nphase: Terminating\nit is being deleted since \S+; its finalizers: foregroundDeletion, kubernetes\n/,
    );
    await fails(
      served.extension.run("resource-exists", { kind: "Namespace", name: "stuck", exists: false }, verify),
      /expected none, but there is 1: Namespace stuck\nNamespace stuck: it is being deleted since/,
    );
    const late = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "late", namespace: "stuck" } };
    await isError(served.extension.run("create", late));
  });
});
