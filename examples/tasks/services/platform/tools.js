import { ResourceTemplate } from "@modelcontextprotocol/server";
import { z } from "zod";
import { Problem } from "./problem.js";

const namespace = z.string().describe("Name of the namespace, such as team-blue.");
const service = z.string().describe("Name of the service inside the namespace, such as shop.");
const version = z.string().describe("Name of the version, such as v2. You choose it when you deploy.");
const replicas = z.int().min(0).describe("How many instances the version has.");
const quota = z
  .object({ services: z.int().min(0).optional(), instances: z.int().min(0).optional() })
  .describe("Most services and instances (over all versions of all services) that the namespace may have.");
const timeoutTicks = z
  .int()
  .min(1)
  .max(2000)
  .default(200)
  .describe("Give up after so many ticks of the platform's clock.");

/** Registers the platform's operations as tools and its state as resources. */
export function registerTools(server, p) {
  const tool = (name, description, shape, run, annotations = {}) =>
    server.registerTool(name, { description, inputSchema: z.object(shape), annotations }, (args) =>
      answering(() => run(args)),
    );
  registerNamespaceTools(tool, p);
  registerServiceTools(tool, p);
  registerReleaseTools(tool, p);
  registerReading(server, p);
}

const reads = { readOnlyHint: true };
const destroys = { destructiveHint: true };

function registerNamespaceTools(tool, p) {
  tool(
    "list_namespaces",
    "Lists all namespaces with quota, usage and names of what is in them.",
    {},
    () => p.listNamespaces(),
    reads,
  );
  tool(
    "create_namespace",
    "Creates a namespace for a tenant. Fails when it is already there.",
    { name: namespace, labels: z.record(z.string(), z.string()).optional(), quota: quota.optional() },
    (args) => p.createNamespace(args),
  );
  tool(
    "delete_namespace",
    "Deletes a namespace and everything in it.",
    { namespace },
    (args) => p.deleteNamespace(args.namespace),
    destroys,
  );
  tool(
    "set_quota",
    "Changes the quota of a namespace. What is left out stays as it is. Fails when more is in use already.",
    { namespace, quota },
    (args) => p.setQuota(args.namespace, args.quota),
  );
  tool(
    "set_member",
    "Gives a user a role in a namespace; replaces the role that the user has.",
    { namespace, user: z.string(), role: z.enum(["viewer", "editor", "admin"]) },
    ({ namespace: name, user, role }) => p.setMember(name, user, role),
  );
  tool(
    "remove_member",
    "Takes a user out of a namespace.",
    { namespace, user: z.string() },
    (args) => p.removeMember(args.namespace, args.user),
    destroys,
  );
  tool(
    "put_config",
    "Creates or replaces a config: variables that versions deployed with it get in their environment. Running instances keep the old values.",
    { namespace, name: z.string().describe("Name of the config."), data: z.record(z.string(), z.string()) },
    (args) => p.putConfig(args.namespace, args.name, args.data),
  );
  tool(
    "get_config",
    "Shows the variables of a config.",
    { namespace, name: z.string() },
    (args) => p.getConfig(args.namespace, args.name),
    reads,
  );
  tool(
    "delete_config",
    "Deletes a config.",
    { namespace, name: z.string() },
    (args) => p.deleteConfig(args.namespace, args.name),
    destroys,
  );
}

function registerServiceTools(tool, p) {
  tool(
    "list_images",
    "Lists the images that can be deployed, and the variables that they need.",
    {},
    () => p.images(),
    reads,
  );
  tool(
    "deploy_version",
    "Deploys a version of a service. The first version makes the service and gets all the traffic; later ones get none until you say so. Returns at once; instances become ready later.",
    {
      namespace,
      service,
      version,
      image: z.string().describe("An image of list_images."),
      replicas: replicas.default(1),
      configs: z.array(z.string()).default([]).describe("Names of configs whose variables it gets."),
    },
    ({ namespace: name, service: svc, version: v, ...rest }) => p.deployVersion(name, svc, v, rest),
  );
  tool(
    "scale_version",
    "Changes how many instances a version has. An instance can answer 5 requests a tick; a service gets 10 a tick.",
    { namespace, service, version, replicas },
    (args) => p.scaleVersion(args.namespace, args.service, args.version, args.replicas),
  );
  tool(
    "remove_version",
    "Removes a version and its instances. Refused while it gets traffic.",
    { namespace, service, version },
    (args) => p.removeVersion(args.namespace, args.service, args.version),
    destroys,
  );
  tool(
    "delete_service",
    "Deletes a service with all its versions, even when it gets traffic.",
    { namespace, service },
    (args) => p.deleteService(args.namespace, args.service),
    destroys,
  );
  tool(
    "get_service",
    "Shows a service: versions, instances and whether they are ready, weights of traffic, rollout.",
    { namespace, service },
    (args) => p.getService(args.namespace, args.service),
    reads,
  );
  tool(
    "get_metrics",
    "Shows requests and errors of a service: over the last ticks, by version, and in total since it was made.",
    { namespace, service },
    (args) => p.metrics(args.namespace, args.service),
    reads,
  );
  tool(
    "list_events",
    "Lists what was done in a namespace, oldest first.",
    { namespace },
    (args) => p.listEvents(args.namespace),
    reads,
  );
}

function registerReleaseTools(tool, p) {
  tool(
    "set_traffic",
    "Sets which share of the traffic each version gets, in percent. Versions left out get none. The shares must add up to 100.",
    { namespace, service, weights: z.record(z.string(), z.int().min(0).max(100)) },
    (args) => p.setTraffic(args.namespace, args.service, args.weights),
  );
  tool(
    "start_rollout",
    "Moves traffic to a version step by step, and back when more than maxErrorPercent of the requests fail. Returns at once; see wait_for_rollout.",
    {
      namespace,
      service,
      to: version,
      stepPercent: z.int().min(1).max(100).default(20),
      everyTicks: z.int().min(1).default(5),
      maxErrorPercent: z.number().min(0).max(100).default(5),
    },
    ({ namespace: name, service: svc, ...rest }) => p.startRollout(name, svc, rest),
  );
  tool(
    "abort_rollout",
    "Stops a rollout and gives the traffic back to the versions that had it.",
    { namespace, service },
    (args) => p.abortRollout(args.namespace, args.service),
    destroys,
  );
  tool(
    "wait_until_ready",
    "Waits until all instances of a version are ready.",
    { namespace, service, version, timeoutTicks },
    (args) =>
      p.waitFor(args.namespace, args.service, {
        ticks: args.timeoutTicks,
        what: `version ${args.version} is not ready`,
        until: ({ versions }) =>
          versions.some(
            (each) => each.version === args.version && each.ready > 0 && each.ready === each.replicas,
          ),
      }),
    reads,
  );
  tool(
    "wait_for_rollout",
    "Waits until the rollout of a service has ended: complete, rolled back or aborted.",
    { namespace, service, timeoutTicks },
    (args) =>
      p.waitFor(args.namespace, args.service, {
        ticks: args.timeoutTicks,
        what: "the rollout has not ended",
        until: ({ rollout }) => rollout !== undefined && rollout.state !== "progressing",
      }),
    reads,
  );
}

function registerReading(server, p) {
  const json = (uri, value) => ({
    contents: [{ uri, mimeType: "application/json", text: JSON.stringify(value) }],
  });
  server.registerResource(
    "images",
    "platform://images",
    { description: "The images that can be deployed.", mimeType: "application/json" },
    (uri) => json(uri.href, p.images()),
  );
  server.registerResource(
    "service",
    new ResourceTemplate("platform://namespaces/{namespace}/services/{service}", { list: undefined }),
    { description: "A service as it is now.", mimeType: "application/json" },
    (uri, at) => json(uri.href, p.getService(at.namespace, at.service)),
  );
  server.registerPrompt(
    "release-plan",
    {
      description: "How this platform wants a new version to be released.",
      argsSchema: z.object({ service: z.string(), version: z.string() }),
    },
    (args) => ({
      messages: [{ role: "user", content: { type: "text", text: releasePlan(args) } }],
    }),
  );
}

function releasePlan({ service: name, version: to }) {
  return [
    `Release ${to} of ${name}:`,
    `1. Deploy ${to} beside the running version and wait until it is ready.`,
    "2. Give it 10 % of the traffic and look at its errors.",
    "3. Give it the rest when there are none, else take it out of the traffic.",
    "4. Remove the old version.",
  ].join("\n");
}

/** The value as structured content and as text; a Problem as an error result. */
async function answering(run) {
  try {
    const value = await run();
    return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { content: [{ type: "text", text: `${error.code}: ${error.message}` }], isError: true };
  }
}
