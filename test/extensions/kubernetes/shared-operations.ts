import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type Answered,
  type ExtensionProcess,
  startExtension,
  fails,
  isError,
  passes,
} from "./extension-process.ts";

/** A cluster that the operations are tried on. */
export interface TestCluster {
  /** A folder that the test may use. */
  readonly folder: string;
  /** Path of a kubeconfig with the contexts `admin` and `nobody`. */
  readonly kubeconfig: string;
  /** Writes the status of an object as its controller would. */
  setStatus(path: string, status: object): Promise<void>;
}

const web = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace: "shop" },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: "web" } },
    template: {
      metadata: { labels: { app: "web" } },
      spec: { containers: [{ name: "main", image: "nginx:1" }] },
    },
  },
};
const webPath = "/apis/apps/v1/namespaces/shop/deployments/web";
const webTarget = { apiVersion: "apps/v1", kind: "Deployment", name: "web", namespace: "shop" };
const oldWebTarget = { apiVersion: "apps/v1", kind: "Deployment", metadata: web.metadata };

function configMap(name: string, data: Record<string, string> = { a: "1" }): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels: { set: "maps" } }, data };
}

const widget = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: { kind: Widget, listKind: WidgetList, plural: widgets, singular: widget }
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true }
---
# a document without anything
---
apiVersion: example.com/v1
kind: Widget
metadata:
  name: first
  namespace: shop
spec: { "size": 3 }
`;

/** Expectations that hold on every API server, one after the other; each builds on those before. */
export function describeOperations(open: () => Promise<TestCluster>): void {
  let cluster: TestCluster;
  let extension: ExtensionProcess;
  const run: ExtensionProcess["run"] = (...call) => extension.run(...call);
  const look = (operation: string, args: object): Promise<Answered> =>
    run(operation, args, { phase: "verify" });

  beforeAll(async () => {
    cluster = await open();
    mkdirSync(join(cluster.folder, "task"), { recursive: true });
    writeFileSync(join(cluster.folder, "task/widgets.yaml"), widget);
    writeFileSync(join(cluster.folder, "outside.yaml"), widget);
    extension = await startExtension({
      config: { kubeconfig: cluster.kubeconfig },
      workdir: join(cluster.folder, "task"),
    });
  });
  afterAll(() => extension?.[Symbol.asyncDispose]());

  describe("namespaces", () => {
    it("makes one, and says that it is there already", async () => {
      await passes(
        run("create-namespace", { name: "shop", labels: { team: "a" } }),
        "Namespace shop is created",
        { name: "shop", namespace: "shop" },
      );
      await fails(run("create-namespace", { name: "shop" }), `namespaces "shop" already exists`);
      const labels = { kind: "Namespace", name: "shop", path: "metadata.labels.team", value: "a" };
      await passes(look("field-equals", labels));
    });

    it("generates names, and deletes what it generated, with a fresh process too", async () => {
      const workspace = { workspace: join(cluster.folder, "trial") };
      const made = await run("createNamespace", { prefix: "vm-test" }, workspace);
      expect(made.outputs?.["namespace"]).toMatch(/^vm-test-[a-z0-9]{8}$/);
      const name = made.outputs?.["namespace"] ?? "";
      await using fresh = await startExtension({
        config: { kubeconfig: cluster.kubeconfig },
        workdir: cluster.folder,
      });
      await passes(
        fresh.run("deleteGeneratedNamespaces", null, { workspace: "/of/another/trial" }),
        "there are no generated namespaces",
      );
      await passes(fresh.run("deleteGeneratedNamespaces", null, workspace), `being deleted: ${name}`);
      await passes(run("delete-namespace", { name, ignoreNotFound: true }, { phase: "cleanup" }));
      await passes(look("resource-exists", { kind: "Namespace", name, exists: false }));
    });
  });

  describe("create and delete", () => {
    it("gives name, namespace, uid and version, and fails when it is there", async () => {
      const made = await run("create", web);
      expect(made).toMatchObject({ success: true, message: "Deployment shop/web is created" });
      expect(made.outputs).toEqual({
        name: "web",
        namespace: "shop",
        uid: expect.stringMatching(/^[0-9a-f-]{36}$/),
        resourceVersion: expect.stringMatching(/^\d+$/),
      });
      await fails(run("create", web), /deployments\S* "web" already exists/);
    });

    it("generates a name, uses the context's namespace, and tells what is not valid", async () => {
      const made = await run("create", { ...configMap(""), metadata: { generateName: "made-" } });
      expect(made.outputs).toMatchObject({
        namespace: "default",
        name: expect.stringMatching(/^made-\w{5}$/),
      });
      await fails(run("create", configMap("Not_Valid")), `ConfigMap "Not_Valid" is invalid: metadata.name`);
      await fails(
        run("create", { ...configMap("x"), metadata: { name: "x", namespace: "nowhere" } }),
        `namespaces "nowhere" not found`,
      );
    });

    it("names a kind that the server does not have", async () => {
      await fails(
        run("create", { ...configMap("x"), kind: "Configmap" }),
        "the server has no kind Configmap in v1; did you mean ConfigMap?",
      );
      await fails(
        run("create", { ...configMap("x"), apiVersion: "nope.io/v1" }),
        "the server has no API nope.io/v1, so no ConfigMap; check apiVersion, or install what brings it",
      );
    });

    it("deletes without waiting, or waits until it is gone", async () => {
      await run("create", configMap("one"));
      const target = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "one" } };
      await passes(run("delete", target), "ConfigMap default/one is being deleted");
      await passes(run("delete", { ...target, wait: true, ignoreNotFound: true }));
      await fails(run("delete", target), "ConfigMap default/one does not exist");
      await passes(
        run("delete", { ...target, ignoreNotFound: true }),
        "ConfigMap default/one does not exist",
      );
    });
  });

  describe("apply", () => {
    it("changes what it owns, and takes nothing from others without force", async () => {
      const first = await run("apply", { manifest: configMap("owned") });
      expect(first).toMatchObject({ success: true, outputs: { name: "owned", count: "1" } });
      const second = { manifest: configMap("owned", { a: "2" }) };
      await passes(run("apply", second));
      const other = { manifest: configMap("owned", { a: "3" }), fieldManager: "other" };
      await fails(
        run("apply", other),
        `ConfigMap owned: Apply failed with 1 conflict: conflict with "mcpvals": .data.a; force: true takes these fields over`,
      );
      await passes(run("apply", { ...other, force: true }));
    });

    it("applies a file of the task's folder, kinds that it defines included", async () => {
      await passes(
        run("apply", { file: "widgets.yaml" }),
        "applied: CustomResourceDefinition widgets.example.com, Widget shop/first",
        { count: "2", names: "CustomResourceDefinition widgets.example.com\nWidget shop/first" },
      );
      const size = { apiVersion: "example.com/v1", kind: "Widget", name: "first", namespace: "shop" };
      expect(await look("field-equals", { ...size, path: "$.spec.size", value: 3 })).toMatchObject({
        success: true,
        outputs: { value: "3" },
      });
    });

    it("applies lists into a namespace, and refuses what is none of it", async () => {
      const list = { apiVersion: "v1", kind: "List", items: [configMap("l1"), configMap("l2")] };
      const yaml = JSON.stringify(list);
      await passes(
        run("apply", { yaml, namespace: "shop" }),
        "applied: ConfigMap shop/l1, ConfigMap shop/l2",
      );
      await passes(run("apply", { manifests: [configMap("l1", { a: "9" })], namespace: "shop" }));
      await isError(run("apply", { file: "../outside.yaml" }));
      await isError(run("apply", { yaml: "kind: Pod" }), "yaml, document 1 lacks apiVersion, metadata.name");
    });
  });

  describe("conditions", () => {
    it("say what is there instead", async () => {
      await fails(
        look("condition", { ...webTarget, condition: "Available" }),
        [
          "Deployment shop/web: expected Available=True, but it has no condition Available",
          "it has no conditions",
          "replicas: 2 wanted, 0 there, 0 ready, 0 available",
          "it has no pods",
        ].join("\n"),
      );
      await fails(
        look("condition", { ...webTarget, name: "gone", condition: "Available" }),
        "Deployment shop/gone does not exist",
      );
    });

    it("are waited for, and may come while it waits", async () => {
      const conditions = [
        {
          type: "Available",
          status: "False",
          reason: "MinimumReplicasUnavailable",
          message: "Deployment does not have minimum availability.",
        },
      ];
      await cluster.setStatus(webPath, { conditions, observedGeneration: 1 });
      const wanted = { ...oldWebTarget, condition: "Available" };
      const late = await run("wait", { ...wanted, timeout: "200ms" });
      expect(late.success).toBe(false);
      expect(late.message).toContain("Deployment shop/web has not come to Available=True within 200ms");
      expect(late.message).toContain(
        "conditions: Available=False (MinimumReplicasUnavailable: Deployment does not have minimum availability.)",
      );
      const waiting = run("wait", { ...wanted, timeout: "20s" });
      const available = [{ type: "Available", status: "True", reason: "MinimumReplicasAvailable" }];
      await cluster.setStatus(webPath, { conditions: available, observedGeneration: 1 });
      await passes(waiting, "Deployment shop/web has Available=True (MinimumReplicasAvailable)");
      await passes(look("condition", { ...webTarget, condition: "Available" }));
      await fails(look("condition", { ...webTarget, condition: "Available", status: "False" }));
    });

    it("end with the step's own time when that is shorter", async () => {
      const gone = { ...oldWebTarget, condition: "Gone" };
      await fails(
        run("wait", { ...gone, timeout: "60s" }, { timeout: "1s" }),
        "the step's own timeout of 1s is shorter than the 60s asked for",
      );
      const whole = await run("wait", gone, { timeout: "3s" });
      expect(whole.message).toContain("within 2.7s, the time left for the step");
    });

    it("must be newer than the object's last change", async () => {
      const changed = { ...web, spec: { ...web.spec, replicas: 3 } };
      await passes(run("apply", { manifest: changed, force: true }));
      await fails(
        look("condition", { ...webTarget, condition: "Available" }),
        "from before the object's last change (generation 1 of 2)",
      );
      await cluster.setStatus(webPath, { observedGeneration: 2 });
      await passes(look("condition", { ...webTarget, condition: "Available" }));
    });

    it("are seen to be stable, or to change meanwhile", async () => {
      const stable = { ...webTarget, condition: "Available", for: "300ms", every: "50ms" };
      await passes(look("condition-stable", stable));
      const flipping = look("condition-stable", { ...stable, for: "15s" });
      const conditions = [{ type: "Available", status: "False", reason: "Crashed" }];
      await cluster.setStatus(webPath, { conditions });
      await fails(
        flipping,
        /^Deployment shop\/web: expected Available=True for 15s, but after \S+ Available=False \(Crashed\)/,
      );
      const short = await run(
        "condition-stable",
        { ...stable, for: "1m" },
        { phase: "verify", timeout: "5s" },
      );
      expect(short).toMatchObject({
        code: -32000,
        message: expect.stringContaining("too little to look on"),
      });
    });

    it("show the containers of a pod", async () => {
      await run("create", {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "web-1", namespace: "shop", labels: { app: "web" } },
        spec: { containers: [{ name: "main", image: "nginx:1" }] },
      });
      await cluster.setStatus("/api/v1/namespaces/shop/pods/web-1", {
        phase: "Pending",
        conditions: [{ type: "Ready", status: "False", reason: "ContainersNotReady" }],
        containerStatuses: [
          {
            name: "main",
            image: "nginx:1",
            imageID: "",
            ready: false,
            restartCount: 4,
            state: { waiting: { reason: "ImagePullBackOff", message: "no such image" } },
            lastState: { terminated: { exitCode: 137, reason: "OOMKilled" } },
          },
        ],
      });
      const states =
        "container main: waiting (ImagePullBackOff: no such image), not ready, 4 restarts, ended before with OOMKilled";
      const pod = { kind: "Pod", name: "web-1", namespace: "shop", condition: "Ready" };
      await fails(
        look("condition", pod),
        [
          "Pod shop/web-1: expected Ready=True, but Ready=False (ContainersNotReady)",
          "phase: Pending",
          "conditions: Ready=False (ContainersNotReady)",
          states,
        ].join("\n"),
      );
      const deployment = await look("condition", { ...webTarget, condition: "Available" });
      expect(deployment.message).toContain(`pod web-1: Pending\n  ${states}`);
      await fails(
        run("exec", { pod: "web-1", namespace: "shop", command: ["true"] }),
        "the container main is not running",
      );
      await fails(
        run("exec", { pod: "gone", namespace: "shop", command: ["true"] }),
        "Pod shop/gone does not exist",
      );
    });
  });

  describe("looking at objects", () => {
    it("counts them", async () => {
      const maps = { kind: "ConfigMap", namespace: "shop", labelSelector: "set=maps" };
      await passes(
        look("resource-exists", { ...maps, count: 2 }),
        "ConfigMap in shop with set=maps: there are 2: ConfigMap shop/l1, ConfigMap shop/l2",
        { count: "2", names: "ConfigMap shop/l1\nConfigMap shop/l2" },
      );
      await fails(
        look("resource-exists", { ...maps, count: { min: 3 } }),
        "ConfigMap in shop with set=maps: expected at least 3, but there are 2: ConfigMap shop/l1, ConfigMap shop/l2",
      );
      await passes(
        look("resource-exists", { ...maps, labelSelector: { set: "none" }, exists: false }),
        "ConfigMap in shop with set=none: there is none",
        { count: "0", names: "" },
      );
      const everywhere = { kind: "ConfigMap", allNamespaces: true, name: "l1" };
      expect(await look("resource-exists", everywhere)).toMatchObject({ outputs: { count: "1" } });
      await fails(
        look("resource-exists", { ...maps, labelSelector: "a===b" }),
        "unable to parse requirement: found '=', expected: identifier",
      );
    });

    it("never takes an unknown kind for something that is gone", async () => {
      const wrong = { kind: "Pods", name: "x" };
      await fails(look("resource-exists", wrong));
      await isError(
        look("resource-exists", { ...wrong, exists: false }),
        "it cannot be told whether objects of that kind are gone: the server has no kind Pods in v1; did you mean Pod?",
      );
    });

    it("compares with a partial manifest", async () => {
      const part = (spec: object): object => ({ manifest: { ...oldWebTarget, spec } });
      const containers = [{ name: "main", image: "nginx:1" }];
      const good = part({ replicas: 3, paused: null, template: { spec: { containers } } });
      await passes(look("resource-matches", good), "Deployment shop/web is as the manifest says");
      const bad = part({
        replicas: 2,
        template: { spec: { containers: [{ name: "main", image: "nginx:2" }, { name: "side" }] } },
        selector: { matchLabels: { app: "web", tier: "front" } },
      });
      await fails(
        look("resource-matches", bad),
        [
          "Deployment shop/web is not as the manifest says:",
          ".spec.replicas is 3, expected 2",
          `.spec.template.spec.containers[name=main].image is "nginx:1", expected "nginx:2"`,
          ".spec.template.spec.containers has no entry named side, it has main",
          `.spec.selector.matchLabels.tier is missing, expected "front"`,
        ].join("\n"),
      );
    });

    it("looks at one field", async () => {
      const field = (path: string, expected: object): Promise<Answered> =>
        look("field-equals", { ...webTarget, path, ...expected });
      await passes(field("spec.replicas", { value: 3 }));
      await fails(
        field("{.spec.replicas}", { oneOf: [1, 2] }),
        "Deployment shop/web: {.spec.replicas} is 3, expected one of [1,2]",
      );
      await passes(field("$..image", { matches: "^nginx:[0-9]+$" }));
      await fails(field("$..image", { matches: "^redis" }));
      await fails(
        field("spec.nothing", { value: 1 }),
        "Deployment shop/web: spec.nothing is not there, expected 1",
      );
      await passes(field("spec.nothing", { exists: false }));
      await fails(field("spec.replicas", { exists: false }));
      await isError(field("spec.replicas", {}));
      await isError(field("spec[", { value: 1 }));
    });
  });

  describe("rights", () => {
    it("are asked for, and only expect makes them count", async () => {
      const question = { verb: "get", resource: "pods", as: "alice" };
      await passes(look("authCanI", question), "get pods in the whole cluster as alice is not allowed", {
        allowed: "false",
        reason: "",
      });
      await passes(look("authCanI", { ...question, expect: { allowed: false } }));
      await fails(
        look("authCanI", { ...question, expect: { allowed: true } }),
        "get pods in the whole cluster as alice is not allowed; expected it to be allowed",
      );
      expect(
        await look("authCanI", { verb: "get", resource: "pods", expect: { allowed: true } }),
      ).toMatchObject({ success: true, outputs: { allowed: "true" } });
    });

    it("that are missing are errors of the environment, not findings", async () => {
      await using nobody = await startExtension({
        config: { kubeconfig: cluster.kubeconfig, context: "nobody" },
        workdir: cluster.folder,
      });
      const target = { kind: "ConfigMap", name: "owned" };
      await isError(
        nobody.run("resource-exists", target, { phase: "verify" }),
        /^the kubeconfig's user may not do this at http\S+: GET \S+ answered 403: .*forbidden: User "nobody"/,
      );
      await using stranger = await startExtension({
        config: { kubeconfig: cluster.kubeconfig, context: "stranger" },
        workdir: cluster.folder,
      });
      await isError(stranger.run("resource-exists", target, { phase: "verify" }), "is not known to");
    });
  });

  it("deletes a namespace with everything in it and waits until it is gone", async () => {
    await passes(
      run("delete-namespace", { name: "shop" }, { phase: "cleanup" }),
      "Namespace shop is deleted",
    );
    await fails(
      run("delete-namespace", { name: "shop" }, { phase: "cleanup" }),
      "Namespace shop does not exist",
    );
    await passes(look("resource-exists", { ...webTarget, exists: false }));
  });
}
