import { type KubeApi, createApi } from "./kube/api.ts";
import { type Kubeconfig, type KubeconfigChoice, loadKubeconfig } from "./kube/kubeconfig.ts";
import { type KubeObjects, createObjects } from "./kube/objects.ts";

/** What all operations work with. */
export interface Cluster {
  readonly kubeconfig: Kubeconfig;
  readonly api: KubeApi;
  readonly objects: KubeObjects;
  /** Namespaces with generated names that this process has made. */
  readonly generated: Set<string>;
}

/** Reads the kubeconfig; the server is not asked. Throws an Error when there is none. */
export function openCluster(choice: KubeconfigChoice): Cluster {
  const kubeconfig = loadKubeconfig(choice, process.env);
  const api = createApi(kubeconfig);
  return { kubeconfig, api, objects: createObjects(api), generated: new Set() };
}
