import { McpvalsError } from "../../base/error.ts";
import { loadPackage } from "../../base/load-package.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { ModelSpec } from "../../model/agent.ts";
import { untilAborted } from "../../process/deadline.ts";
import {
  type AwsCredentials,
  type Environment,
  findKey,
  firstSet,
  isSet,
  type LanguageModelV4,
  type ModelAccess,
  type ModelTransport,
  noneSet,
  readBaseURL,
} from "./model-access.ts";

/** A cloud that offers models. Its package is an optional peer dependency: few need it, and it is large. */
interface CloudProvider {
  readonly name: string;
  /** Other common names of the provider. */
  readonly aliases: readonly string[];
  /** Finds the address and the key or credentials of a model, without loading the package. */
  locate(spec: ModelSpec, model: string, env: Environment): CloudPlace;
}

type CloudPlace = Pick<ModelAccess, "wire" | "baseURL" | "apiKey" | "signing">;

export const cloudProviders: readonly CloudProvider[] = [
  { name: "azure", aliases: ["azure-openai"], locate: locateAzure },
  { name: "bedrock", aliases: ["amazon-bedrock", "aws"], locate: locateBedrock },
  { name: "vertex", aliases: ["google-vertex"], locate: locateVertex },
];

const azureVariables = { url: ["AZURE_OPENAI_ENDPOINT"], key: ["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"] };

/** Azure OpenAI and Foundry, by the API that has the same form as OpenAI's own. The model is the name of a deployment. */
function locateAzure(spec: ModelSpec, _model: string, env: Environment): CloudPlace {
  const { url, key } = azureVariables;
  const apiKey = findKey(spec, key, env);
  if (apiKey === undefined)
    throw missing(spec, "API key", `${noneSet(key)}, and no apiKey is given`, `Set ${key.join(" or ")}.`);
  const baseURL = givenBaseURL(spec, url, env, completeAzurePath);
  if (baseURL === undefined)
    throw missing(
      spec,
      "address",
      `${noneSet(url)}, and no baseURL is given`,
      `Set ${url[0]}, such as https://RESOURCE.openai.azure.com.`,
    );
  return { wire: spec.api === "chat" ? "azure-chat" : "azure-responses", baseURL, apiKey };
}

/** The address of a resource, which stands in Azure's portal, is without the path. */
function completeAzurePath(path: string): string {
  if (path.endsWith("/v1")) return path;
  return path.endsWith("/openai") ? `${path}/v1` : `${path}/openai/v1`;
}

const regionVariables = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/** Amazon Bedrock's Converse API, with an API key of Bedrock, or signed with the credentials of an AWS account. */
function locateBedrock(spec: ModelSpec, _model: string, env: Environment): CloudPlace {
  const needRegion = (): string =>
    hostLabel(needed(spec, "region", regionVariables, env, "Set AWS_REGION, such as us-east-1."));
  const apiKey = findKey(spec, ["AWS_BEARER_TOKEN_BEDROCK"], env);
  const signing =
    apiKey === undefined ? { credentials: awsCredentials(spec, env), region: needRegion() } : undefined;
  const baseURL =
    givenBaseURL(spec, ["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"], env) ??
    `https://bedrock-runtime.${needRegion()}.${awsDomain(needRegion())}`;
  return { wire: "bedrock", baseURL, ...withoutUndefined({ apiKey, signing }) };
}

function awsCredentials(spec: ModelSpec, env: Environment): AwsCredentials {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!isSet(accessKeyId) || !isSet(secretAccessKey))
    throw missing(
      spec,
      "API key",
      "neither AWS_BEARER_TOKEN_BEDROCK nor AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY is set, and no apiKey is given",
      "Profiles of the AWS CLI are not read: aws configure export-credentials --format env prints the variables of one.",
    );
  const { AWS_SESSION_TOKEN: sessionToken } = env;
  return { accessKeyId, secretAccessKey, ...(isSet(sessionToken) ? { sessionToken } : {}) };
}

/** Two parts of AWS that everyone can use have a domain of their own. */
function awsDomain(region: string): string {
  if (region.startsWith("cn-")) return "amazonaws.com.cn";
  return region.startsWith("eusc-") ? "amazonaws.eu" : "amazonaws.com";
}

const vertexVariables = {
  key: ["GOOGLE_VERTEX_API_KEY"],
  project: ["GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT"],
  location: ["GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION"],
};

/**
 * Gemini on Google Vertex: with an API key (express mode), which belongs to a project, or else with the application
 * default credentials, which are looked for when the model is called.
 */
function locateVertex(spec: ModelSpec, model: string, env: Environment): CloudPlace {
  const wire = "vertex";
  const apiKey = findKey(spec, vertexVariables.key, env);
  const given = givenBaseURL(spec, [], env);
  // Models of one's own are in the project, not with a publisher.
  const isOwn = model.startsWith("endpoints/");
  if (apiKey !== undefined && isOwn)
    throw new McpvalsError("config/invalid-value", `${spec.model} cannot be asked with an API key`, {
      hint: "Unset GOOGLE_VERTEX_API_KEY, and use the application default credentials.",
    });
  if (apiKey !== undefined)
    return { wire, apiKey, baseURL: given ?? "https://aiplatform.googleapis.com/v1/publishers/google" };
  if (given !== undefined) return { wire, baseURL: given };
  const orKey = "or GOOGLE_VERTEX_API_KEY, which needs neither project nor location";
  const { project: ofProject, location: ofLocation } = vertexVariables;
  const project = needed(spec, "project", ofProject, env, `Set ${ofProject.join(" or ")}, ${orKey}.`);
  const location = hostLabel(
    needed(spec, "location", ofLocation, env, `Set ${ofLocation.join(" or ")}, such as global, ${orKey}.`),
  );
  const path = `/v1beta1/projects/${encodeURIComponent(project.value.trim())}/locations/${location}`;
  return { wire, baseURL: `https://${vertexHost(location)}${path}${isOwn ? "" : "/publishers/google"}` };
}

function vertexHost(location: string): string {
  if (location === "global") return "aiplatform.googleapis.com";
  return location === "eu" || location === "us"
    ? `aiplatform.${location}.rep.googleapis.com`
    : `${location}-aiplatform.googleapis.com`;
}

function givenBaseURL(
  { baseURL, model }: ModelSpec,
  variables: readonly string[],
  env: Environment,
  completePath?: (path: string) => string,
): string | undefined {
  if (baseURL !== undefined) return readBaseURL(baseURL, `baseURL of ${model}`, completePath);
  const found = firstSet(variables, env);
  return found && readBaseURL(found.value, `${found.name} of ${model}`, completePath);
}

interface SetVariable {
  readonly name: string;
  readonly value: string;
}

/** The first of the variables that is set. Throws `model/no-key` with the advice when none is. */
function needed(
  spec: ModelSpec,
  what: string,
  variables: readonly string[],
  env: Environment,
  advice: string,
): SetVariable {
  const found = firstSet(variables, env);
  if (found === undefined) throw missing(spec, what, noneSet(variables), advice);
  return found;
}

/** The value, which becomes a part of a host's name: another character could lead the key to another host. */
function hostLabel({ name, value }: SetVariable): string {
  const label = value.trim();
  if (/^[a-z\d-]+$/i.test(label)) return label;
  throw new McpvalsError(
    "config/invalid-value",
    `${name} is not the name of a region: letters, digits and -`,
  );
}

function missing({ model }: ModelSpec, what: string, why: string, hint: string): McpvalsError {
  return new McpvalsError("model/no-key", `no ${what} for ${model}: ${why}`, { hint });
}

/** A model of Azure. Throws `model/no-package`. */
export async function createAzureModel(
  { label, wire, model, apiKey = "" }: ModelAccess,
  transport: ModelTransport,
): Promise<LanguageModelV4> {
  const { createAzure } = await loadPackage(
    { name: "@ai-sdk/azure", user: label, code: "model/no-package" },
    () => import("@ai-sdk/azure"),
  );
  const azure = createAzure({ ...transport, apiKey });
  return wire === "azure-chat" ? azure.chat(model) : azure.responses(model);
}

/** A model of Bedrock. Throws `model/no-package`. */
export async function createBedrockModel(
  { label, model, apiKey = "", signing }: ModelAccess,
  transport: ModelTransport,
): Promise<LanguageModelV4> {
  const { createAmazonBedrock } = await loadPackage(
    { name: "@ai-sdk/amazon-bedrock", user: label, code: "model/no-package" },
    () => import("@ai-sdk/amazon-bedrock"),
  );
  // Without the empty key the package would look for one in the process's environment.
  const { region = "", credentials } = signing ?? {};
  return createAmazonBedrock({ ...transport, apiKey, region, ...credentials })(model);
}

/**
 * A model of Vertex. Throws `model/no-package`; without a key the model throws `model/no-key` when there are no usable
 * application default credentials.
 */
export async function createVertexModel(
  { label, model, apiKey = "" }: ModelAccess,
  transport: ModelTransport,
): Promise<LanguageModelV4> {
  const { createVertex } = await loadPackage(
    { name: "@ai-sdk/google-vertex", user: label, code: "model/no-package" },
    () => import("@ai-sdk/google-vertex"),
  );
  let sent = 0;
  const counting: typeof fetch = (...request) => {
    sent += 1;
    return transport.fetch(...request);
  };
  // Without the empty key the package would look for one in the process's environment.
  // Without the project, which is in the address, google-auth-library would ask gcloud for one.
  const project = /\/projects\/([^/]+)/.exec(transport.baseURL)?.[1];
  const settings = { ...transport, apiKey, fetch: counting, ...withoutUndefined({ project }) };
  const vertex = createVertex(settings)(model);
  if (apiKey !== "") return vertex;
  const withCredentials = async <T>(
    ask: () => PromiseLike<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> => {
    const before = sent;
    try {
      const answer = Promise.resolve(ask());
      // The search for credentials, which may ask servers, does not end with the signal.
      return await (signal === undefined ? answer : untilAborted(answer, signal));
    } catch (error) {
      // The errors of google-auth-library have no type of their own. What it throws comes before the request.
      const isOther = !(error instanceof Error) || error.name.startsWith("AI_");
      if (isOther || sent > before || signal?.aborted === true) throw error;
      throw new McpvalsError("model/no-key", `no Google credentials for ${label}: ${error.message}`, {
        cause: error,
        hint: "Run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_VERTEX_API_KEY.",
      });
    }
  };
  const { wrapLanguageModel } = await import("ai");
  return wrapLanguageModel({
    model: vertex,
    middleware: {
      specificationVersion: "v4",
      wrapGenerate: ({ doGenerate, params }) => withCredentials(doGenerate, params.abortSignal),
      wrapStream: ({ doStream, params }) => withCredentials(doStream, params.abortSignal),
    },
  });
}
