import * as z from "zod";
import { defineExtension, type Extension } from "../../src/extension-sdk/index.ts";
import { openCluster } from "./cluster.ts";
import { apply } from "./operations/apply.ts";
import { authCanI } from "./operations/auth-can-i.ts";
import { conditionStable } from "./operations/condition-stable.ts";
import { condition } from "./operations/condition.ts";
import { create } from "./operations/create.ts";
import { deleteObject } from "./operations/delete.ts";
import { exec } from "./operations/exec.ts";
import { fieldEquals } from "./operations/field-equals.ts";
import { helmInstall, helmList, helmUninstall } from "./operations/helm.ts";
import { getCurrentContext, listContexts, viewConfig } from "./operations/kubeconfig-views.ts";
import {
  createNamespace,
  createNamespaceWithLabels,
  deleteGeneratedNamespaces,
  deleteNamespace,
} from "./operations/namespaces.ts";
import { resourceExists } from "./operations/resource-exists.ts";
import { resourceMatches } from "./operations/resource-matches.ts";
import { wait } from "./operations/wait.ts";

/**
 * Steps for Kubernetes. Names in camelCase are those of the extension that older tasks use, and can stand in every phase as
 * they could there.
 */
export const extension: Extension = defineExtension({
  name: "kubernetes",
  version: "0.1.0",
  description: "Makes, removes and checks what is in a Kubernetes cluster.",
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
