import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fails, isError, passes } from "./extension-process.ts";
import { type Served, serveExtension } from "./served.ts";

/** Notes its arguments, its folder and KUBECONFIG, and ends as the file `answer` beside it says. */
const fake = `#!${process.execPath}
const { readFileSync, appendFileSync } = require("node:fs");
const { join } = require("node:path");
const { code = 0, stdout = "", stderr = "" } = JSON.parse(readFileSync(join(__dirname, "answer"), "utf8"));
const note = { args: process.argv.slice(2), cwd: process.cwd(), kubeconfig: process.env.KUBECONFIG };
appendFileSync(join(__dirname, "notes"), JSON.stringify(note) + "\\n");
process.stdout.write(stdout);
process.stderr.write(stderr);
process.exitCode = code;
`;

describe.skipIf(process.platform === "win32")("helm (a program that stands for it)", () => {
  let served: Served;
  const bin = mkdtempSync(join(tmpdir(), "mcpvals-helm-"));
  const kubeContext = ["--kube-context", "admin"];
  beforeAll(async () => {
    writeFileSync(join(bin, "helm"), fake);
    chmodSync(join(bin, "helm"), 0o755);
    served = await serveExtension({ PATH: [bin, dirname(process.execPath)].join(delimiter) });
  });
  afterAll(async () => {
    await served?.[Symbol.asyncDispose]();
    rmSync(bin, { recursive: true, force: true });
  });

  const answer = (how: object): void => writeFileSync(join(bin, "answer"), JSON.stringify(how));
  function lastNote(): { args: string[]; cwd: string; kubeconfig: string } {
    const lines = readFileSync(join(bin, "notes"), "utf8").trim().split("\n");
    return JSON.parse(lines.at(-1) ?? "") as ReturnType<typeof lastNote>;
  }

  it("installs", async () => {
    answer({ stdout: "NAME: web\nSTATUS: deployed\n" });
    const values = {
      replicas: 2,
      image: { tag: "1,2", args: ["a", "b"] },
      "service.type": "NodePort",
      on: true,
    };
    const args = { chart: "./charts/web", name: "web", namespace: "shop", values };
    await passes(served.extension.run("helmInstall", args), "NAME: web\nSTATUS: deployed");
    const sets = [
      "replicas=2",
      "image.tag=1\\,2",
      "image.args[0]=a",
      "image.args[1]=b",
      "service.type=NodePort",
      "on=true",
    ];
    expect(lastNote()).toEqual({
      args: [
        ...words("install web ./charts/web --namespace shop"),
        ...sets.flatMap((setting) => ["--set", setting]),
        ...kubeContext,
      ],
      cwd: served.folder,
      kubeconfig: join(served.folder, "config"),
    });
    await served.extension.run("helmInstall", { chart: "web", createNamespace: true, wait: true });
    expect(lastNote().args).toEqual([
      ...words("install --generate-name web --create-namespace --wait"),
      ...kubeContext,
    ]);
  });

  it("lists, and only what is expected counts", async () => {
    answer({ stdout: "[]" });
    await passes(served.extension.run("helmList", null), "there are no releases", { count: "0", names: "" });
    expect(lastNote().args).toEqual(["list", "--output", "json", ...kubeContext]);
    await fails(
      served.extension.run("helmList", { expect: { count: 1 } }),
      "expected 1: there are no releases",
    );
    answer({
      stdout: JSON.stringify([{ name: "web", namespace: "shop", status: "deployed", chart: "web-1.0.0" }]),
    });
    const told = "1 release:\nweb (namespace shop, deployed, chart web-1.0.0)";
    const all = { allNamespaces: true, namespace: "shop", expect: { names: ["web"], count: 1 } };
    await passes(served.extension.run("helmList", all), told, { count: "1", names: "web" });
    expect(lastNote().args).toEqual(["list", "--output", "json", "--all-namespaces", ...kubeContext]);
    await fails(
      served.extension.run("helmList", { expect: { names: ["db"] } }),
      `db not among them: ${told}`,
    );
    answer({ stdout: "WARNING" });
    await isError(served.extension.run("helmList", {}));
  });

  it("uninstalls; what is not there is gone already", async () => {
    answer({ stdout: `release "web" uninstalled\n` });
    await passes(
      served.extension.run("helmUninstall", { name: "web", namespace: "shop" }),
      `release "web" uninstalled`,
    );
    expect(lastNote().args).toEqual(["uninstall", "web", "--namespace", "shop", ...kubeContext]);
    answer({ code: 1, stderr: "Error: uninstall: Release not loaded: web: release: not found\n" });
    await passes(served.extension.run("helmUninstall", { name: "web" }), "there is no release web");
  });

  it("tells its errors apart from those of the cluster", async () => {
    answer({ code: 1, stderr: "Error: chart not found\n", stdout: "more\n" });
    await fails(
      served.extension.run("helmInstall", { chart: "c", name: "n" }),
      "helm install n c ended with exit code 1:\nError: chart not found\nmore",
    );
    answer({ code: 1, stderr: "Error: Kubernetes cluster unreachable: dial tcp: connection refused\n" });
    for (const [operation, args] of [
      ["helmInstall", { chart: "c" }],
      ["helmList", {}],
      ["helmUninstall", { name: "web" }],
    ] as const) {
      await isError(
        served.extension.run(operation, args),
        "could not work with the cluster: Error: Kubernetes cluster unreachable",
      );
    }
  });

  it("must be installed", async () => {
    await using without = await serveExtension({ PATH: join(bin, "empty") });
    await isError(
      without.extension.run("helmList", {}),
      "the program helm is not on PATH; install it (Helm 3)",
    );
  });
});

function words(text: string): readonly string[] {
  return text.split(" ");
}
