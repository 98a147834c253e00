import { createHash, createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test, vi } from "vitest";
import type { Environment } from "../../src/agents/models/model-access.ts";
import { locateModel, type ModelAnswer, resolveModel } from "../../src/agents/models/resolve-model.ts";
import { callSettings, createRetryingModel } from "../../src/agents/models/retrying-model.ts";
import type { ModelSpec } from "../../src/model/agent.ts";
import { fixtureServer } from "../e2e/support.ts";
import { runInline } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];

async function ask(spec: ModelSpec, env: Environment, requestTimeoutMs = 10_000): Promise<ModelAnswer> {
  const access = locateModel(spec, env);
  const { providerOptions, reasoning } = callSettings(spec, access);
  const model = await createRetryingModel(await resolveModel(access), {
    access,
    purpose: "agent",
    emit: () => 0,
    requestTimeoutMs,
    retry: { maxRetries: 0 },
  });
  return model.doGenerate({
    prompt,
    ...(providerOptions && { providerOptions }),
    ...(reasoning && { reasoning }),
  });
}

test("Azure stores nothing, and gets an effort whatever a deployment is called", async () => {
  await using provider = await startFakeProvider(() => ({ text: "hi" }), { key: "azure-key" });
  const env = { AZURE_OPENAI_ENDPOINT: provider.url, AZURE_API_KEY: "azure-key" };
  await ask({ model: "azure/prod" }, env);
  await ask({ model: "azure/prod", effort: "low" }, env);
  const [plain, effort] = provider.requests.map(({ body }) => body);
  expect(plain).toMatchObject({ model: "prod", store: false });
  expect(plain).not.toHaveProperty("reasoning");
  expect(effort).toMatchObject({ store: false, reasoning: { effort: "low" } });
});

const aws = {
  AWS_REGION: "eu-central-1",
  AWS_ACCESS_KEY_ID: "AKIAEXAMPLE",
  AWS_SECRET_ACCESS_KEY: "the-secret-of-the-account",
  AWS_SESSION_TOKEN: "the-token-of-the-session",
};

/** The signature of a request by AWS Signature Version 4, from the headers that it names as signed. */
function signatureOf(
  { path, headers, body }: { path: string; headers: NodeJS.Dict<string | string[]>; body: unknown },
  [scope, signed]: readonly [string, string],
): string {
  const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
  const hmac = (key: Buffer | string, text: string): Buffer =>
    createHmac("sha256", key).update(text).digest();
  const names = signed.split(";");
  const lines = names.map((name) => `${name}:${String(headers[name])}\n`).join("");
  const request = ["POST", path, "", lines, signed, sha256(JSON.stringify(body))].join("\n");
  const toSign = ["AWS4-HMAC-SHA256", String(headers["x-amz-date"]), scope, sha256(request)].join("\n");
  const key = scope.split("/").reduce<Buffer | string>(hmac, `AWS4${aws.AWS_SECRET_ACCESS_KEY}`);
  return hmac(key, toSign).toString("hex");
}

test("Bedrock's requests are signed with the given credentials, not those of the process", async () => {
  for (const name of [...Object.keys(aws), "AWS_BEARER_TOKEN_BEDROCK", "AWS_ENDPOINT_URL"])
    vi.stubEnv(name, "wrong");
  await using provider = await startFakeProvider(() => ({ text: "hi" }));
  const { AWS_SESSION_TOKEN: token, ...lasting } = aws;
  for (const env of [aws, lasting])
    await ask(
      { model: "bedrock/amazon.nova-lite-v1" },
      { ...env, AWS_ENDPOINT_URL_BEDROCK_RUNTIME: provider.url },
    );
  for (const request of provider.requests) {
    const [, scope = "", signed = "", signature] =
      /^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE\/(\S+), SignedHeaders=(\S+), Signature=(\w+)$/.exec(
        request.headers.authorization ?? "",
      ) ?? [];
    expect(scope).toMatch(/^\d{8}\/eu-central-1\/bedrock\/aws4_request$/);
    expect(signature).toBe(signatureOf(request, [scope, signed]));
  }
  const tokens = provider.requests.map(({ headers }) => headers["x-amz-security-token"]);
  expect(tokens).toEqual([token, undefined]);
});

test("what Bedrock repeats of the credentials has the marks of secrets in the result", async () => {
  const message = `bad ${aws.AWS_ACCESS_KEY_ID}, ${aws.AWS_SECRET_ACCESS_KEY}, ${aws.AWS_SESSION_TOKEN}`;
  await using provider = await startFakeProvider([{ status: 403, message }]);
  const config = {
    server: fixtureServer(),
    agent: { model: "bedrock/m", baseURL: provider.url },
    workflows: [{ name: "w", steps: [{ user: "hi", expectedState: "x" }] }],
  };
  const { result } = await runInline({ "mcp-eval.config.json": config }, [], aws);
  expect(result.trials[0]?.error).toMatchObject({
    code: "model/rejected",
    message: expect.stringMatching(
      /HTTP 403: bad \[secret:AWS_ACCESS_KEY_ID\], \[secret:AWS_SECRET_ACCESS_KEY\], \[secret:AWS_SESSION_TOKEN\]$/,
    ) as string,
  });
});

test("Bedrock's errors are told apart: too long, throttled, unknown", async () => {
  const replies = [
    { status: 400, message: "Input is too long for requested model." },
    { status: 429, message: "Too many requests" },
    { status: 404, message: "The model is not there" },
  ];
  await using provider = await startFakeProvider(replies);
  for (const [code, reason] of [
    ["model/context-overflow", "Input is too long"],
    ["model/unreachable", "Too many requests"],
    ["model/rejected", "The model is not there"],
  ])
    await expect(ask({ model: "bedrock/m", baseURL: provider.url, apiKey: "k" }, {})).rejects.toMatchObject({
      code,
      message: expect.stringContaining(reason ?? "") as string,
    });
});

/** Leaves google-auth-library no credentials but those of a metadata server, if one is given. */
function googleCredentials(metadataServer?: string): void {
  const missing = fileURLToPath(new URL("no-such-folder", import.meta.url));
  for (const name of ["HOME", "APPDATA", "CLOUDSDK_CONFIG"]) vi.stubEnv(name, missing);
  for (const name of ["GOOGLE_APPLICATION_CREDENTIALS", "google_application_credentials"])
    vi.stubEnv(name, "");
  vi.stubEnv("METADATA_SERVER_DETECTION", metadataServer === undefined ? "none" : "assume-present");
  vi.stubEnv("GCE_METADATA_HOST", metadataServer ?? "127.0.0.1:9");
  vi.stubEnv("GOOGLE_VERTEX_API_KEY", "wrong");
}

const gemini = (url: string): ModelSpec => ({
  model: "vertex/gemini-2.5-flash",
  baseURL: `${url}/v1beta1/projects/p/locations/l/publishers/google`,
});

/** A server that gives Google's credentials to programs on its machines; without a token it never answers. */
async function startMetadataServer(token?: string): Promise<AsyncDisposable & { readonly host: string }> {
  const server = createServer((_request, response) => {
    if (token === undefined) return;
    response.writeHead(200, { "content-type": "application/json", "metadata-flavor": "Google" });
    response.end(JSON.stringify({ access_token: token, expires_in: 3600, token_type: "Bearer" }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("Vertex without a key uses the application default credentials", async () => {
  await using metadata = await startMetadataServer("token-of-metadata");
  googleCredentials(metadata.host);
  await using provider = await startFakeProvider(() => ({ text: "hi" }), { key: "token-of-metadata" });
  const answer = await ask(gemini(provider.url), {});
  expect(answer.content).toMatchObject([{ type: "text", text: "hi" }]);
  expect(provider.requests[0]?.headers).not.toHaveProperty("x-goog-api-key");
});

test("a search for credentials takes no longer than a request may", async () => {
  await using metadata = await startMetadataServer();
  googleCredentials(metadata.host);
  await using provider = await startFakeProvider(() => ({ text: "hi" }));
  await expect(ask(gemini(provider.url), {}, 100)).rejects.toMatchObject({
    code: "model/unreachable",
    message: expect.stringContaining("no answer within 0.1 s") as string,
  });
});

test("Vertex without any credentials says how to get some, and sends nothing", async () => {
  googleCredentials();
  await using provider = await startFakeProvider(() => ({ text: "hi" }));
  await expect(ask(gemini(provider.url), {})).rejects.toMatchObject({
    code: "model/no-key",
    message: expect.stringMatching(
      /^no Google credentials for vertex\/gemini-2\.5-flash: Could not load the default credentials/,
    ) as string,
    details: { hint: expect.stringContaining("gcloud auth application-default login") as string },
  });
  expect(provider.requests).toEqual([]);
});

test("what a refused request to Vertex says is told as of other providers", async () => {
  await using provider = await startFakeProvider([{ status: 404, message: "no such model" }]);
  await expect(ask({ ...gemini(provider.url), apiKey: "k" }, {})).rejects.toMatchObject({
    code: "model/rejected",
    message: expect.stringContaining("no such model") as string,
  });
});
