import * as z from "zod";
import { defineExtension, type Extension } from "../../src/extensions/sdk/index.ts";
import { createApi, type KubeApi } from "./kube/api.ts";
import { type Kubeconfig, type KubeconfigChoice, loadKubeconfig } from "./kube/kubeconfig.ts";
import { createObjects, type KubeObjects } from "./kube/objects.ts";
import { apply, create, deleteObject } from "./operations/changes.ts";
import { authCanI } from "./operations/auth-can-i.ts";
import { condition, conditionStable, wait } from "./operations/conditions.ts";
import { exec } from "./operations/exec.ts";
import { helmInstall, helmList, helmUninstall } from "./operations/helm.ts";
import { getCurrentContext, listContexts, viewConfig } from "./operations/kubeconfig-views.ts";
import {
  createNamespace,
  createNamespaceWithLabels,
  deleteGeneratedNamespaces,
  deleteNamespace,
} from "./operations/namespaces.ts";
import { fieldEquals, resourceExists, resourceMatches } from "./operations/resources.ts";

/**
 * Steps for Kubernetes. Names in camelCase are those of the extension that older tasks use, and can stand in every phase as
 * they could there.
 */
export const extension: Extension = defineExtension({
  name: "kubernetes",
  version: "0.1.0",
  description: "Creates, deletes and checks objects in a Kubernetes cluster.",
  config: z.strictObject({
    kubeconfig: z.string().min(1).optional().describe("Default: KUBECONFIG, or ~/.kube/config."),
    context: z.string().min(1).optional().describe("Default: the kubeconfig's current context."),
  }),
  open: openCluster,
  operations: {
    create,
    delete: deleteObject,
    wait,
    authCanI,
    listContexts,
    getCurrentContext,
    viewConfig,
    createNamespace,
    deleteGeneratedNamespaces,
    helmInstall,
    helmList,
    helmUninstall,
    "create-namespace": createNamespaceWithLabels,
    "delete-namespace": deleteNamespace,
    apply,
    exec,
    condition,
    "condition-stable": conditionStable,
    "resource-exists": resourceExists,
    "resource-matches": resourceMatches,
    "field-equals": fieldEquals,
  },
});

/** What all operations work with. */
export interface Cluster {
  readonly kubeconfig: Kubeconfig;
  readonly api: KubeApi;
  readonly objects: KubeObjects;
  /** Namespaces with generated names that this process has made. */
  readonly generated: Set<string>;
}

/** Reads the kubeconfig; the server is not asked. Throws an Error when there is none. */
function openCluster(choice: KubeconfigChoice): Cluster {
  const kubeconfig = loadKubeconfig(choice, process.env);
  const api = createApi(kubeconfig);
  return { kubeconfig, api, objects: createObjects(api), generated: new Set() };
}
